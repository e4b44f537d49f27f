"""Configurations condensed from the kinds that people have, each with what is particular in it.

They are our own texts, after the structure of common guides: WebSocket proxies, PHP applications,
application servers behind sockets, single pages, redirects, modules that a build lacks. ``KINDS``
are bound and answer; ``REFUSED`` are refused with a way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

UPGRADE = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }\n"
SOCKETS = (
    "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;"
    " proxy_set_header Connection $connection_upgrade; proxy_set_header Host $host;"
)


@dataclass(frozen=True)
class Kind:
    """One configuration, and what tuner is expected to say of it."""

    http: str
    """Content of the block ``http``."""
    said: tuple[str, ...] = ()
    """Parts of its notes, or of the refusal."""
    not_said: tuple[str, ...] = ()
    """Parts that no note has."""
    main: str = "events {}\n"
    workload: str = "proxy"
    server_name: str = ""
    fixed: Mapping[str, object] | None = None
    """Values of the baseline."""
    way_out: str = ""
    """Options of the refusal that are tried."""

    @property
    def text(self) -> str:
        """The main file."""
        return f"{self.main}http {{\n{self.http}\n}}\n"


KINDS: Mapping[str, Kind] = {
    "home automation, with a map for WebSockets": Kind(
        UPGRADE + f"server {{ listen 80; server_name home.example; location / {{ {SOCKETS}\n"
        " proxy_pass http://127.0.0.1:8123; } }",
        said=("the workload's backend stands behind 127.0.0.1:8123",),
        not_said=("proxy_pass http://127.0.0.1:8123 is",),
        fixed={"proxy_http_version": "1.1", "upstream_keepalive": 0},
    ),
    "a chat, with a word for WebSockets": Kind(
        """
        upstream app { server chat:8065; keepalive 32; }
        proxy_cache_path /var/cache/chat levels=1:2 keys_zone=chat:10m max_size=3g;
        server {
            listen 80 default_server;
            location ~ /api/v[0-9]+/(users/)?websocket$ {
                proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection "upgrade"; proxy_pass http://app;
            }
            location / {
                proxy_http_version 1.1; proxy_set_header Connection "upgrade";
                proxy_buffers 256 16k; proxy_buffer_size 16k; proxy_cache chat;
                proxy_pass http://app;
            }
        }""",
        fixed={"proxy_http_version": "1.1", "upstream_keepalive": 32},
    ),
    "a social network: files first, else a named location": Kind(
        UPGRADE
        + """
        upstream web { server unix:/run/web.sock fail_timeout=0; }
        server { listen 80; listen [::]:80; server_name so.example;
            location / { return 301 https://$host$request_uri; } }
        server {
            listen 443 ssl; listen [::]:443 ssl; server_name so.example; root /srv/so;
            ssl_certificate /etc/letsencrypt/live/so/fullchain.pem;
            ssl_certificate_key /etc/letsencrypt/live/so/privkey.pem;
            ssl_stapling on; ssl_trusted_certificate /etc/letsencrypt/live/so/chain.pem;
            location / { try_files $uri @web; }
            location ^~ /api/v1/streaming { proxy_pass http://127.0.0.1:4000; }
            location @web { """
        + SOCKETS
        + """ proxy_pass http://web; proxy_redirect off; }
            error_page 404 500 502 503 504 /500.html;
        }""",
        said=("requests to ", "the lab's own certificate"),
        fixed={"proxy_http_version": "1.1"},
    ),
    "a forum: a limit for each client, locations in locations": Kind(
        """
        upstream forum { server unix:/srv/forum/nginx.http.sock; }
        limit_req_zone $binary_remote_addr zone=flood:10m rate=12r/s;
        limit_conn_zone $binary_remote_addr zone=each:10m;
        map $http_x_forwarded_proto $thescheme { default $scheme; https https; }
        server {
            listen 80; set $public /srv/forum/public; root $public;
            limit_conn each 20; limit_req zone=flood burst=12 nodelay;
            location ^~ /backups/ { internal; }
            location / {
                root $public;
                location ~ ^/uploads/short-url/ { proxy_pass http://forum; break; }
                location ~* assets/.*\\.ttf$ { expires 1y; }
                try_files $uri @forum;
            }
            location @forum { proxy_set_header X-Forwarded-Proto $thescheme;
                proxy_pass http://forum; }
        }""",
        said=("limit_req zone=flood burst=12 nodelay is not carried over: it would refuse",),
    ),
    "an address that is composed, with a resolver": Kind(
        """
        resolver 127.0.0.11 valid=10s;
        server { listen 80; set $to http://app:4000;
            location / { proxy_pass $to; } location /b { proxy_pass http://$host$request_uri; } }
        """,
        said=("resolver 127.0.0.11 valid=10s is not carried over: the lab resolves no names",),
    ),
    "clients in two groups": Kind(
        """
        split_clients "${remote_addr}A" $group { 50% blue; * green; }
        upstream blue { server 10.0.0.1; } upstream green { server 10.0.0.2; }
        server { listen 80; location / { proxy_pass http://$group; } }""",
        said=("the workload's backend stands behind $group",),
    ),
    "a socket of an application server": Kind(
        """
        server { listen 80 default_server; return 444; }
        server { listen 80 deferred; server_name app.example; root /srv/app;
            location / { try_files $uri @app; }
            location @app { proxy_set_header Host $http_host;
                proxy_pass http://unix:/run/app.sock; }
            error_page 500 502 503 504 /500.html; location = /500.html { root /srv/app; } }""",
        said=("another one is not",),
    ),
    "another server lets requests in": Kind(
        """
        server { listen 80;
            location / { auth_request /auth; auth_request_set $user $upstream_http_x_user;
                error_page 401 = @login; proxy_set_header X-User $user;
                proxy_pass http://127.0.0.1:3000; }
            location = /auth { internal; proxy_pass http://127.0.0.1:9091/verify;
                proxy_pass_request_body off; }
            location @login { return 302 https://login.example; } }""",
        said=("auth_request /auth is not carried over: the lab has no server that it could ask",),
    ),
    "Lua in four places": Kind(
        """
        lua_shared_dict seen 1m;
        init_by_lua_block { local s = "}" -- } '
            local t = [[ { "]] }
        server { listen 80;
            set_by_lua_block $to { return "10.0.0.1" }
            location / { access_by_lua_block { if x then ngx.exit(403) end }
                proxy_set_header X-To $to; proxy_pass http://127.0.0.1:3000; }
            location /lua { content_by_lua_block { ngx.say('{') } } }""",
        said=("access_by_lua_block {…} is not carried over", "$to is empty in the lab"),
    ),
    "modules that this build lacks": Kind(
        """
        geoip_country /usr/share/GeoIP/GeoIP.dat; brotli on; js_import main from main.js;
        js_set $token main.token;
        map $geoip_country_code $allowed { default yes; XX no; }
        log_format seen '$remote_addr $geoip_country_code "$request"';
        access_log /var/log/nginx/seen.log seen;
        server { listen 80; if ($allowed = no) { return 403; }
            location / { proxy_set_header X-Token $token; proxy_pass http://127.0.0.1:3000; }
            location /metrics { vhost_traffic_status_display; } }""",
        main="load_module modules/ngx_http_geoip_module_of_nobody.so;\nevents {}\n"
        "stream { server { listen 5432; proxy_pass 10.0.0.1:5432; } }\n",
        said=(
            "$geoip_country_code is empty in the lab",
            "$token is empty in the lab",
            "load_module modules/ngx_http_geoip_module_of_nobody.so is not carried over",
            "stream is not carried over",
        ),
    ),
    "a certificate of a socket that is not asked": Kind(
        """
        server { listen 80; listen 443 ssl; ssl_certificate /gone.pem; ssl_certificate_key /gone;
            ssl_client_certificate /gone.pem; ssl_verify_client on;
            location / { proxy_pass https://10.0.0.1:8443; } }""",
        said=("the lab's backend is asked in cleartext",),
        not_said=("certificate (ECDSA",),
    ),
    "an error page that is the application": Kind(
        """
        server { listen 80; root /srv; error_page 404 = @app;
            location @app { proxy_pass http://127.0.0.1:3000; } }""",
    ),
    "a code that is a jump": Kind(
        """
        server { listen 80; location / { error_page 418 = @app; return 418; }
            location @app { proxy_pass http://127.0.0.1:3000; } }""",
    ),
    "a path that is rewritten to another location": Kind(
        """
        server { listen 80; location / { rewrite ^/(?<rest>.*)$ /app/$1?x=y last; }
            location /app/ { rewrite ^/gone /x last; proxy_pass http://10.0.0.1/; } }""",
        said=("stands behind 10.0.0.1",),
    ),
    "paths that are rewritten without a flag": Kind(
        """
        server { listen 80; server_name a.example;
            location / { rewrite ^ https://b.example/ permanent; } location /x { root /srv; } }
        server { listen 80; server_name b.example; rewrite ^/api(.*)$ /v2$1 break;
            location / { return 404; }
            location /v2/ { rewrite ^ /app$uri?$args; rewrite ^/app/v2/(.*)$ /in/$1; }
            location /in/ { proxy_pass http://10.0.0.1; } }""",
        said=("stands behind 10.0.0.1",),
    ),
    "a name that redirects": Kind(
        """
        server { listen 80; server_name www.so.example; return 301 https://so.example$request_uri; }
        server { listen 80; server_name so.example; location / { proxy_pass http://10.0.0.1; } }""",
        server_name="www.so.example",
        said=("www.so.example redirects to so.example, which is tuned",),
    ),
    "a name that a rewrite leads from": Kind(
        """
        server { listen 80; server_name old.example; rewrite ^ http://new.example/ permanent; }
        server { listen 80; server_name *.example; location / { proxy_pass http://10.0.0.1; } }""",
        server_name="old.example",
        said=("old.example redirects to new.example",),
    ),
    "one name twice at one address": Kind(
        """
        server { listen 80; server_name a.example; location / { proxy_pass http://10.0.0.1; } }
        server { listen *:80; server_name a.example; location / { proxy_pass http://10.0.0.2; } }
        """,
        server_name="a.example",
        said=("Nginx ignores a.example here", "stands behind 10.0.0.1"),
    ),
    "a default server that serves no proxy": Kind(
        """
        server { listen 80 default_server; root /srv; }
        server { listen 80; server_name api.example; location / { proxy_pass http://10.0.0.1; } }
        """,
        said=("stands behind 10.0.0.1",),
    ),
    "a PHP application's files": Kind(
        """
        upstream php { server unix:/run/php/fpm.sock; }
        server { listen 80; root /srv/blog; index index.php;
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ { fastcgi_param SCRIPT_FILENAME $request_filename;
                fastcgi_pass php; } }""",
        workload="static",
        said=("fastcgi_pass php is changed in the lab: it has no upstream",),
    ),
    "a PHP application": Kind(
        """
        upstream php { server unix:/run/php/fpm.sock; }
        server { listen 80; root /srv/blog; index index.php;
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ { try_files $uri =404;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_pass php; } }""",
        said=("nginx.conf:9: the workload's backend stands behind php",),
        not_said=("parameter proxy",),
        fixed={"fastcgi_keep_conn": False, "fastcgi_buffers_number": 8},
    ),
    "a cloud in PHP, with the path after the script": Kind(
        """
        upstream php-handler { server 127.0.0.1:9000; }
        server { listen 80; root /srv/cloud; index index.php index.html /index.php$request_uri;
            fastcgi_buffers 64 4K;
            location / { try_files $uri $uri/ /index.php$request_uri; }
            location ~ \\.php(?:$|/) {
                rewrite ^/(?!index|remote|public|cron|status) /index.php$request_uri;
                fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
                set $path_info $fastcgi_path_info;
                try_files $fastcgi_script_name =404;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param PATH_INFO $path_info;
                fastcgi_pass php-handler; fastcgi_intercept_errors on;
                fastcgi_request_buffering off; fastcgi_max_temp_file_size 0; } }""",
        said=("the workload's backend stands behind php-handler",),
        fixed={"fastcgi_buffers_number": 64, "fastcgi_buffer_size": 4096},
    ),
    "a framework in PHP, with a front controller and a cache": Kind(
        """
        fastcgi_cache_path /var/cache/app levels=1:2 keys_zone=app:10m inactive=60m;
        server { listen 80; root /srv/app/public; charset utf-8;
            location / { try_files $uri /index.php$is_args$args; }
            location ~ ^/index\\.php(/|$) {
                fastcgi_pass unix:/run/php/php8.2-fpm.sock;
                fastcgi_split_path_info ^(.+\\.php)(/.*)$;
                fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
                fastcgi_param DOCUMENT_ROOT $realpath_root;
                fastcgi_cache app; fastcgi_cache_valid 200 1m;
                fastcgi_cache_key $scheme$request_method$host$request_uri;
                internal; }
            location ~ \\.php$ { return 404; } }""",
        said=("the workload's backend stands behind unix:/run/php/php8.2-fpm.sock",),
        fixed={"fastcgi_cache_lock": False, "fastcgi_cache_background_update": False},
    ),
    "a script that a condition looks for": Kind(
        """
        server { listen 80; root /srv/wiki;
            location / { try_files $uri @php; }
            location @php { rewrite ^ /wiki.php last; }
            location ~ [^/]\\.php(/|$) {
                if (!-f $document_root$fastcgi_script_name) { return 404; }
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_pass 127.0.0.1:9000; } }""",
        said=("the workload's backend stands behind 127.0.0.1:9000",),
    ),
    "a uwsgi application with files": Kind(
        """
        upstream django { server unix:///srv/site.sock; }
        server { listen 8000; location /static { alias /srv/static; }
            location / { uwsgi_pass django; uwsgi_param REQUEST_METHOD $request_method; } }""",
        said=("the workload's backend stands behind django",),
        fixed={"uwsgi_buffers_number": 8},
    ),
    "an SCGI application below a path that a variable names": Kind(
        """
        server { listen 80; set $app 10.0.0.1:4000;
            location / { scgi_param CONTENT_LENGTH $content_length; scgi_pass $app; } }""",
        said=("the workload's backend stands behind $app",),
    ),
    "a gRPC service over TLS": Kind(
        """
        server { listen 443 ssl http2; server_name rpc.example;
            ssl_certificate /etc/ssl/rpc.pem; ssl_certificate_key /etc/ssl/rpc.key;
            location /shop.Orders { grpc_pass grpcs://orders; }
            location / { grpc_pass grpc://10.0.0.1:9; } }
        upstream orders { server 10.0.0.2:9; keepalive 4; }""",
        workload="grpc",
        said=("the lab's backend is asked in cleartext", "backend stands behind orders"),
        fixed={"grpc_keepalive": 4},
    ),
    "conditions that turn robots and strangers away": Kind(
        """
        server { listen 80;
            if ($host !~ ^shop\\.example$) { return 444; }
            valid_referers blocked shop.example;
            location / {
                if ($http_user_agent ~ (bot|curl|^$)) { return 403; }
                if ($request_method = TRACE) { set $seen 1; }
                if ($invalid_referer) { return 403; }
                proxy_pass http://10.0.0.1; } }""",
        said=("if ($host !~ ^shop\\.example$) is not carried over: it may turn the requests",),
        not_said=("if ($request_method",),
    ),
    "a country that is let in": Kind(
        """
        map $geoip_country_code $allowed { default no; US yes; }
        server { listen 80; if ($allowed = no) { return 403; }
            location / { proxy_pass http://10.0.0.1; } }""",
        said=("if ($allowed = no) is not carried over", "$geoip_country_code is empty in the lab"),
    ),
    "conditions that redirect": Kind(
        """
        server { listen 80; listen 443 ssl; server_name shop.example;
            if ($scheme = http) { rewrite ^(.*)$ https://$host$1 permanent; }
            if ($host != shop.example) { return 302 https://shop.example$request_uri; }
            location / { limit_except POST { deny all; } proxy_pass http://10.0.0.1; } }""",
        said=(
            "if ($scheme = http) is not carried over: it may turn the requests",
            "limit_except POST is not carried over",
        ),
    ),
    "the scheme of the client": Kind(
        """
        upstream app { server 10.0.0.1:8080; }
        server { listen 443 ssl; location / { proxy_pass $scheme://app; } }""",
        said=("the workload's backend stands behind app",),
    ),
    "an application where no file is": Kind(
        """
        upstream mongrels { server 127.0.0.1:8000; }
        server { listen 80; root /srv/app/public;
            location / { proxy_set_header Host $http_host;
                if (!-f $request_filename) { proxy_pass http://mongrels; break; } } }""",
        said=("the workload's backend stands behind mongrels",),
        fixed={"proxy_http_version": "1.0"},
    ),
    "settings of another machine, system and build": Kind(
        """
        upstream app { zone app 64k; server 10.0.0.1 slow_start=30s; server 10.0.0.2 backup; }
        server { listen 443 ssl spdy; ssl_ecdh_curve NoSuchCurve:X25519;
            location / { proxy_bind 10.9.8.7; proxy_pass http://app; } }""",
        main="events { use kqueue; }\n",
        said=(
            "slow_start=30s is changed in the lab: this build of Nginx does not know slow_",
            "listen 443 ssl spdy is changed in the lab: this build of Nginx does not know spdy",
            "ssl_ecdh_curve NoSuchCurve:X25519 is not carried over: the TLS library",
            "proxy_bind 10.9.8.7 is not carried over: the lab's backend is on the loopback",
            "use kqueue is not carried over: this system does not have it",
        ),
    ),
    "servers that are set while it runs": Kind(
        """
        upstream app { zone app 64k; state /var/lib/nginx/app.conf; }
        upstream empty { }
        server { listen 80; location / { proxy_pass http://app; } }""",
        said=("state /var/lib/nginx/app.conf is not carried over",),
    ),
    "a server that knows some paths only": Kind(
        """
        server { listen 80; location / { return 404; }
            location /api/ { proxy_pass http://10.0.0.1; } }""",
    ),
    "conditions that this workload meets": Kind(
        """
        server { listen 80; if ($request_method !~ ^(GET|HEAD)$) { return 405; }
            location / { proxy_pass http://10.0.0.1; } }""",
        not_said=("if ($request_method",),
    ),
}

REFUSED: Mapping[str, Kind] = {
    "a proxy below a path": Kind(
        """
        server { listen 80; root /usr/share/nginx/html;
            location /grafana/ { rewrite ^/grafana/(.*) /$1 break; proxy_pass http://g:3000; } }""",
        said=("this server has no proxy_pass",),
        way_out="--location /grafana/",
    ),
    "a gRPC service next to a site": Kind(
        """
        server { listen 80; server_name rpc.example; location / { grpc_pass grpc://10.0.0.1:9; } }
        server { listen 80; server_name api.example; location / { proxy_pass http://10.0.0.1; } }
        """,
        server_name="rpc.example",
        said=("needs gRPC",),
        way_out="--server-name api.example",
    ),
    "a cache in memory with files": Kind(
        """
        server { listen 8000; location /static { alias /srv/static; }
            location / { set $memcached_key $uri; memcached_pass 10.0.0.1:11211; } }""",
        said=("needs memcached", "which the lab does not have"),
        way_out="--workload static --location /static",
    ),
    "a PHP application that is asked for files": Kind(
        """
        server { listen 80; root /srv/app; location ~ \\.php$ { fastcgi_pass 10.0.0.1:9000; }
            location / { fastcgi_pass 10.0.0.1:9000; } }""",
        workload="static",
        said=("needs FastCGI", "nginx.conf:5"),
        way_out="--workload proxy",
    ),
    "a proxy that is asked for gRPC": Kind(
        """
        server { listen 443 ssl http2; location / { proxy_pass http://10.0.0.1; }
            location /rpc/ { grpc_pass 10.0.0.1:50051; } }""",
        workload="grpc",
        said=("needs an HTTP server behind it", "this workload asks for gRPC"),
        way_out="--location /rpc/",
    ),
    "a gRPC service that is asked for pages": Kind(
        "server { listen 443 ssl http2; location / { grpc_pass 10.0.0.1:50051; } }",
        said=("needs gRPC", "which this workload does not ask for"),
        way_out="--workload grpc",
    ),
    "a SCGI application with a proxy": Kind(
        """
        server { listen 80; location / { scgi_pass 10.0.0.1:4000; }
            location /api/ { proxy_pass http://10.0.0.1; } }""",
        workload="static",
        said=("needs SCGI",),
        way_out="--workload proxy",
    ),
    "a proxy that is asked for files": Kind(
        "server { listen 80; location / { proxy_pass http://10.0.0.1; } }",
        workload="static",
        said=("needs an HTTP server behind it",),
        way_out="--workload proxy",
    ),
    "an answer of Lua": Kind(
        """
        server { listen 80; location / { content_by_lua_block { ngx.say("{") } }
            location /app/ { proxy_pass http://10.0.0.1; } }""",
        said=("is answered by content_by_lua_block",),
        way_out="--location /app/",
    ),
    "a path that is no more": Kind(
        """
        server { listen 80; location /api { return 410; }
            location / { proxy_pass http://10.0.0.1; } }""",
        said=("is answered by return 410",),
        way_out="--location /app/",
    ),
    "an answer in words": Kind(
        """
        server { listen 80; location / { return 200 "ok"; }
            location /files/ { } }""",
        workload="static",
        said=("is answered by return 200",),
    ),
    "a name of redirects only": Kind(
        """
        server { listen 80; server_name old.example; return 301 https://elsewhere.example; }
        server { listen 80; server_name api.example; location / { proxy_pass http://10.0.0.1; } }
        """,
        server_name="old.example",
        said=("only redirects or refuses", "name one that answers: api.example"),
    ),
    "sites that are not there": Kind(
        "include sites-enabled/*;",
        said=("the http block has no server; ", "no file matches sites-enabled/*"),
    ),
    "redirects only": Kind(
        "server { listen 80; return 301 https://$host$request_uri; }",
        said=("every server here only redirects or refuses",),
    ),
}

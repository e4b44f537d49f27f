"""Sixteen configurations with the settings and the structure of well-known ones.

The settings are those of distributions' packages (Debian, Alpine, Fedora), of the h5bp server
configurations, and of the deployment guides or examples of Nextcloud, WordPress, GitLab, Mastodon,
gunicorn, NetBox, Keycloak, Sentry, wger, Mattermost, Timesketch and Drupal. The texts are ours.

``@DIR@`` is the configuration's folder, ``@PORT@`` where it listens, ``@BACK@`` the port behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

PLACES = "\n".join(
    f"    {name}_temp_path @DIR@/run/{name};"
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)
MAIN = """\
{main}
pid @DIR@/run/nginx.pid;
error_log @DIR@/run/error.log;
{more}
http {{
    include mime.types;
    default_type application/octet-stream;
    access_log @DIR@/run/access.log;
{places}
{http}
}}
"""
TYPES = "types { text/html html; text/css css; text/plain txt; application/javascript js; }\n"


@dataclass(frozen=True)
class Case:
    """One configuration."""

    http: str
    main: str = "worker_processes auto;"
    more: str = "events { worker_connections 1024; }"
    proxied: bool = False
    tls: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    """Parameters that stay as the user has them."""
    name: str = "nginx.conf"
    host: str = ""
    paths: tuple[str, ...] = ("/index.html", "/", "/style.css", "/missing", "/.git/config")

    def texts(self) -> dict[str, str]:
        """Return the files by their path."""
        main = MAIN.format(main=self.main, more=self.more, places=PLACES, http=dedent(self.http))
        files = {name: dedent(text) for name, text in self.files.items()}
        return {self.name: main, "mime.types": TYPES, **files}


API = ("/api/orders/b3f1c2a4", "/", "/api/x?y=1", "/static/style.css")

CASES: Mapping[str, Case] = {
    "package of Debian": Case(
        main="worker_processes auto;\ninclude modules-enabled/*.conf;",
        more="events {\n\tworker_connections 768;\n\t# multi_accept on;\n}",
        http="""\
        \tsendfile on; tcp_nopush on; types_hash_max_size 2048;
        \tssl_protocols TLSv1.2 TLSv1.3; # without the old ones
        \tssl_prefer_server_ciphers on;
        \tgzip on;
        \tinclude conf.d/*.conf;
        \tinclude sites-enabled/*;
        """,
        files={
            "sites-enabled/default": """\
            server {
            \tlisten 127.0.0.1:@PORT@ default_server;
            \troot @DIR@/www;
            \tindex index.html index.htm;
            \tserver_name _;
            \tlocation / { try_files $uri $uri/ =404; }
            }
            """
        },
    ),
    "package of Alpine": Case(
        main="worker_processes auto;\npcre_jit on;\ninclude modules/*.conf;",
        http="""\
            server_tokens off;
            client_max_body_size 1m;
            sendfile on;
            tcp_nopush on;
            ssl_session_cache shared:SSL:2m;
            ssl_session_timeout 1h;
            ssl_session_tickets off;
            gzip_vary on;
            map $http_upgrade $connection_upgrade { default upgrade; '' close; }
            log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                            '$status $body_bytes_sent "$http_referer" '
                            '"$http_user_agent" "$http_x_forwarded_for"';
            access_log @DIR@/run/access.log main;
            include http.d/*.conf;
        """.replace("    access_log @DIR@/run/access.log main;\n", ""),
        files={
            "http.d/site.conf": """\
            server {
                listen 127.0.0.1:@PORT@;
                root @DIR@/www;
                location = /404.html { internal; }
            }
            """
        },
    ),
    "package of Fedora": Case(
        main="worker_processes auto;\ninclude nowhere/*.conf;",
        http="""\
            sendfile            on;
            tcp_nopush          on;
            keepalive_timeout   65;
            types_hash_max_size 4096;
            server {
                listen       127.0.0.1:@PORT@;
                server_name  _;
                root         @DIR@/www;
                include default.d/*.conf;
                error_page 404 /404.html;
                location = /404.html {
                }
                error_page 500 502 503 504 /50x.html;
                location = /50x.html {
                }
            }
        """,
    ),
    "boilerplate of h5bp": Case(
        main="worker_processes auto;\nworker_rlimit_nofile 8192;",
        more="events {\n    worker_connections 8000;\n}",
        http="""\
            server_tokens off;
            sendfile on;
            tcp_nopush on;
            keepalive_timeout 20s;
            charset utf-8;
            charset_types text/css text/plain;
            include parts/gzip.conf;
            map $sent_http_content_type $expires {
                default 1M;
                "" off;
                ~*text/css 1y;
                ~*text/html epoch;
            }
            map $sent_http_content_type $policy {
                ~*text/(html|javascript)|application/pdf "default-src 'self'; base-uri 'none';";
            }
            expires $expires;
            include conf.d/*.conf;
        """,
        files={
            "parts/gzip.conf": "gzip on; gzip_comp_level 5; gzip_min_length 256; gzip_vary on;\n",
            "parts/basic.conf": """\
                location ~* /\\.(?!well-known\\/) { deny all; }
                location ~* (?:#.*#|\\.(?:bak|conf|dist|log|sql|sw[op])|~)$ { deny all; }
                add_header X-Content-Type-Options nosniff always;
                add_header Content-Security-Policy $policy always;
            """,
            "conf.d/.hidden.conf": "nothing that Nginx would read\n",
            "conf.d/a-nobody.conf": """\
                server { listen 127.0.0.1:@PORT@ default_server; return 444; }
            """,
            "conf.d/www.conf": """\
                server { listen 127.0.0.1:@PORT@; server_name www.shop.example;
                    return 301 $scheme://shop.example$request_uri; }
                server {
                    listen 127.0.0.1:@PORT@;
                    server_name shop.example 127.0.0.1;
                    root @DIR@/www;
                    include parts/basic.conf;
                }
            """,
        },
    ),
    "guide of Nextcloud": Case(
        http="""\
            map $arg_v $asset_immutable { "" ""; default ", immutable"; }
            upstream php-handler { server 127.0.0.1:9; }
            server {
                listen 127.0.0.1:@PORT@;
                client_max_body_size 512M;
                client_body_timeout 300s;
                fastcgi_buffers 64 4K;
                client_body_buffer_size 512k;
                gzip on; gzip_vary on; gzip_comp_level 4; gzip_min_length 256;
                gzip_proxied expired no-cache no-store private no_last_modified no_etag auth;
                gzip_types text/css text/plain application/json;
                add_header Referrer-Policy "no-referrer" always;
                add_header X-Robots-Tag "noindex, nofollow" always;
                fastcgi_hide_header X-Powered-By;
                root @DIR@/www;
                index index.php index.html /index.php$request_uri;
                location = / {
                    if ($http_user_agent ~ ^DavClnt) { return 302 /remote.php/$is_args$args; }
                }
                location ^~ /.well-known {
                    location = /.well-known/carddav { return 301 /remote.php/dav/; }
                    return 301 /index.php$request_uri;
                }
                location ~ ^/(?:build|tests|config|lib|3rdparty|data)(?:$|/) { return 404; }
                location ~ ^/(?:\\.|autotest|occ|issue|indie|db_|console) { return 404; }
                location ~ \\.php(?:$|/) {
                    rewrite ^/(?!index|remote|public|cron|status) /index.php$request_uri;
                    fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
                    set $path_info $fastcgi_path_info;
                    try_files $fastcgi_script_name =404;
                    fastcgi_param PATH_INFO $path_info;
                    fastcgi_pass php-handler;
                    fastcgi_intercept_errors on;
                }
                location ~ \\.(?:css|js|mjs|svg|gif|ico|jpg|png|webp|wasm|tflite|map)$ {
                    try_files $uri /index.php$request_uri;
                    add_header Cache-Control "public, max-age=15778463$asset_immutable";
                    access_log off;
                }
                location / { try_files $uri $uri/ /index.php$request_uri; }
            }
        """,
        paths=("/index.html", "/style.css?v=1", "/data/x", "/.well-known/carddav"),
    ),
    "guide of WordPress": Case(
        http="""\
            keepalive_timeout 65 60;
            server {
                listen 127.0.0.1:@PORT@; root @DIR@/www; index index.php index.html;
                location = /robots.txt { allow all; log_not_found off; access_log off; }
                location ~* ^.*(\\.(?:git|svn|htaccess|pot?))$ { return 404; }
                location ~ /\\. { deny all; }
                location ~* /(?:uploads|files)/.*\\.php$ { deny all; }
                rewrite /wp-admin$ $scheme://$host$uri/ permanent;
                location ~* ^.+\\.(css|js|svg|woff2|jpg)$ { log_not_found off; expires max; }
                location / { try_files $uri $uri/ /index.php?$args; }
                location ~ [^/]\\.php(/|$) {
                    if (!-f $document_root$fastcgi_script_name) { return 404; }
                    fastcgi_pass unix:@DIR@/run/php.sock;
                    fastcgi_keep_conn on;
                }
            }
        """,
    ),
    "guide of GitLab": Case(
        proxied=True,
        paths=(*API, "/assets/none.css"),
        http="""\
            upstream forge { server 127.0.0.1:@BACK@ fail_timeout=0; }
            server {
              listen 127.0.0.1:@PORT@ default_server;
              server_name forge.example;
              server_tokens off;
              root @DIR@/empty;
              client_max_body_size 20m;
              location / { try_files $uri $uri/index.html $uri.html @forge; }
              location @forge {
                proxy_read_timeout      300;
                proxy_connect_timeout   300;
                proxy_redirect          off;
                proxy_set_header    Host                $http_host;
                proxy_set_header    X-Real-IP           $remote_addr;
                proxy_set_header    X-Forwarded-For     $proxy_add_x_forwarded_for;
                proxy_set_header    X-Frame-Options     SAMEORIGIN;
                proxy_pass http://forge;
              }
              location ~ ^/(assets)/ {
                root @DIR@/empty; expires max; add_header Cache-Control public;
              }
              error_page 502 /502.html;
            }
        """,
    ),
    "guide of Mastodon": Case(
        proxied=True,
        tls=True,
        paths=(*API, "/sw.js", "/api/v1/streaming/x"),
        http="""\
            map $http_upgrade $connection_upgrade {
              default upgrade;
              ''      close;
            }
            upstream backend { server 127.0.0.1:@BACK@ fail_timeout=0; }
            upstream streaming { least_conn; server 127.0.0.1:@BACK@ fail_timeout=0; }
            proxy_cache_path @DIR@/run/cache levels=1:2 keys_zone=CACHE:10m inactive=7d max_size=1g;
            server {
              listen 127.0.0.1:@PLAIN@;
              location /.well-known/acme-challenge/ { allow all; }
              location / { return 301 https://$host$request_uri; }
            }
            server {
              listen 127.0.0.1:@PORT@ ssl http2;
              server_name social.example;
              ssl_protocols TLSv1.2 TLSv1.3;
              ssl_ciphers HIGH:!MEDIUM:!LOW:!aNULL:!NULL:!SHA;
              ssl_session_cache shared:SSL:10m;
              ssl_session_tickets off;
              ssl_certificate @DIR@/cert.pem;
              ssl_certificate_key @DIR@/key.pem;
              keepalive_timeout 70; sendfile on;
              root @DIR@/empty;
              gzip on; gzip_vary on; gzip_proxied any; gzip_comp_level 6;
              location / {
                location = /sw.js { add_header Cache-Control "max-age=6"; try_files $uri =404; }
                location ~ ^/(assets|packs)/ { try_files $uri =404; }
                proxy_set_header Host $host;
                proxy_set_header X-Forwarded-Proto $scheme;
                proxy_set_header Proxy "";
                proxy_pass_header Server;
                proxy_pass http://backend;
                proxy_buffering on;
                proxy_redirect off;
                proxy_http_version 1.1;
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection $connection_upgrade;
                proxy_cache CACHE;
                proxy_cache_valid 200 7d;
                add_header X-Cached $upstream_cache_status;
                tcp_nodelay on;
              }
              location ^~ /api/v1/streaming {
                proxy_pass http://streaming;
                proxy_buffering off;
                proxy_http_version 1.1;
                proxy_set_header Connection $connection_upgrade;
              }
              error_page 404 500 501 502 503 504 /500.html;
            }
        """,
    ),
    "example of gunicorn": Case(
        main="worker_processes 1;",
        more="events {\n  worker_connections 1024;\n  accept_mutex off;\n  use epoll;\n}",
        proxied=True,
        paths=API,
        http="""\
          upstream app_server { server 127.0.0.1:@BACK@ fail_timeout=0; }
          server { listen 127.0.0.1:@PORT@ default_server; server_name nobody.example; return 444; }
          server {
            listen 127.0.0.1:@PORT@ deferred;
            client_max_body_size 4G;
            server_name 127.0.0.1 www.example.com;
            keepalive_timeout 5;
            root @DIR@/empty;
            location / { try_files $uri @proxy_to_app; }
            location @proxy_to_app {
              proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
              proxy_set_header X-Forwarded-Proto $scheme;
              proxy_set_header Host $http_host;
              # what is redirected, is redirected by the application
              proxy_redirect off;
              proxy_pass http://app_server;
            }
            error_page 500 502 503 504 /500.html;
            location = /500.html { root @DIR@/empty; }
          }
        """,
    ),
    "example of NetBox": Case(
        proxied=True,
        tls=True,
        paths=API,
        http="""\
            server {
                listen 127.0.0.1:@PORT@ ssl;
                server_name net.example;
                ssl_certificate @DIR@/cert.pem;
                ssl_certificate_key @DIR@/key.pem;
                client_max_body_size 25m;
                location /static/ { alias @DIR@/www/; }
                location / {
                    proxy_pass http://127.0.0.1:@BACK@;
                    proxy_set_header X-Forwarded-Host $http_host;
                    proxy_set_header X-Real-IP $remote_addr;
                    proxy_set_header X-Forwarded-Proto $scheme;
                }
            }
        """,
    ),
    "guide of Keycloak": Case(
        proxied=True,
        paths=API,
        http="""\
            upstream login { server 127.0.0.1:@BACK@; keepalive 16; }
            server {
                listen 127.0.0.1:@PORT@;
                large_client_header_buffers 4 32k;
                client_max_body_size 100m; client_body_buffer_size 128k;
                proxy_buffer_size 128k; proxy_buffers 4 256k; proxy_busy_buffers_size 256k;
                proxy_http_version 1.1; proxy_set_header Connection "";
                proxy_set_header Host $host; proxy_set_header X-Forwarded-Port 443;
                location / { proxy_pass http://login/; proxy_read_timeout 3600s; }
            }
        """,
    ),
    "gateway of Sentry": Case(
        main="worker_processes auto;",
        proxied=True,
        paths=(*API, "/api/store/", "/_static/x.css"),
        http="""\
            sendfile on; tcp_nopush on; tcp_nodelay on; reset_timedout_connection on;
            keepalive_timeout 75s;
            gzip off;
            server_tokens off;
            map_hash_bucket_size 128;
            types_hash_max_size 2048;
            proxy_http_version 1.1; proxy_redirect off;
            proxy_next_upstream error timeout invalid_header;
            proxy_buffer_size 128k; proxy_buffers 4 256k; proxy_busy_buffers_size 256k;
            proxy_set_header Connection '';
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            upstream relay { server 127.0.0.1:@BACK@; keepalive 2; }
            upstream web { server 127.0.0.1:@BACK@; keepalive 2; keepalive_timeout 10s; }
            server {
                listen 127.0.0.1:@PORT@;
                location /api/store/ { proxy_pass http://relay; }
                location ~ ^/api/[1-9]\\d*/ { proxy_pass http://relay; }
                location ^~ /js-sdk/ { root @DIR@/www; }
                location / { proxy_pass http://web; }
                location /_static/ {
                    proxy_pass http://web;
                    proxy_hide_header Content-Disposition;
                }
            }
        """,
    ),
    "example of wger": Case(
        proxied=True,
        paths=(*API, "/ps/sync"),
        http="""\
            upstream wger { server 127.0.0.1:@BACK@; }
            upstream sync { server 127.0.0.1:@BACK@; }
            log_format json escape=json '{' '"ts":"$time_iso8601",' '"status":$status' '}';
            map $http_x_forwarded_proto $proto { default $http_x_forwarded_proto; '' $scheme; }
            server {
                listen 127.0.0.1:@PORT@;
                access_log @DIR@/run/json.log json;
                location / {
                    proxy_pass http://wger;
                    proxy_set_header Host $http_host;
                    proxy_set_header X-Forwarded-Proto $proto;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection "upgrade";
                    proxy_redirect off;
                    proxy_http_version 1.1;
                    proxy_read_timeout 86400s;
                }
                location /ps/ {
                    proxy_pass http://sync/;
                    proxy_http_version 1.1;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection "upgrade";
                    proxy_buffering off;
                }
                location /static/ {
                    alias @DIR@/www/;
                    add_header Cache-Control "public, max-age=31536000, immutable" always;
                }
                client_max_body_size 100M;
            }
        """,
    ),
    "guide of Mattermost": Case(
        proxied=True,
        tls=True,
        paths=(*API, "/api/v4/websocket"),
        http="""\
            sendfile on; keepalive_timeout 65;
            proxy_cache_path @DIR@/run/cache levels=1:2 keys_zone=c:10m max_size=3g inactive=120m
                use_temp_path=off;
            upstream backend { server 127.0.0.1:@BACK@; keepalive 64; }
            server {
                listen 127.0.0.1:@PLAIN@ default_server;
                return 301 https://$host$request_uri;
            }
            server {
                listen 127.0.0.1:@PORT@ ssl http2 default_server;
                server_name _;
                gzip on; gzip_vary on; gzip_proxied any; gzip_comp_level 6;
                ssl_session_timeout 1d; ssl_session_cache shared:MozSSL:10m;
                ssl_session_tickets off;
                ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers off;
                ssl_certificate @DIR@/cert.pem; ssl_certificate_key @DIR@/key.pem;
                ssl_early_data on;
                add_header Strict-Transport-Security "max-age=63072000" always;
                location ^~ /.well-known { default_type "text/plain"; root @DIR@/empty; allow all; }
                location ~ /api/v[0-9]+/(users/)?websocket$ {
                    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
                    proxy_buffers 256 16k; proxy_buffer_size 16k;
                    proxy_http_version 1.1; proxy_pass http://backend;
                }
                location / {
                    proxy_set_header Connection ""; proxy_set_header Host $http_host;
                    proxy_set_header Early-Data $ssl_early_data;
                    proxy_buffers 256 16k; proxy_buffer_size 16k; proxy_read_timeout 600s;
                    proxy_cache c; proxy_cache_revalidate on; proxy_cache_min_uses 2;
                    proxy_cache_use_stale timeout; proxy_cache_lock on;
                    proxy_http_version 1.1; proxy_pass http://backend;
                }
            }
        """,
    ),
    "example of Timesketch": Case(
        main="",
        more="events { worker_connections 768; }",
        proxied=True,
        paths=(*API, "/login"),
        http="""\
            server {
                listen 127.0.0.1:@PORT@;
                client_max_body_size 0m;
                location / {
                    set $check "";
                    if ($request_uri ~* "(/login)") { set $check U; }
                    if ($request_method = POST) { set $check "${check}M"; }
                    if ($http_content_type != "application/x-www-form-urlencoded") {
                        set $check "${check}CT";
                    }
                    if ($check = UMCT) { return 403; }
                    proxy_buffer_size 128k; proxy_buffers 4 256k; proxy_busy_buffers_size 256k;
                    proxy_pass http://127.0.0.1:@BACK@/;
                    proxy_read_timeout 120s;
                    proxy_set_header Host $host;
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                }
            }
        """,
    ),
    "guide of Drupal": Case(
        main="worker_rlimit_nofile 8192;",
        more="events { worker_connections 4096; multi_accept on; }",
        http="""\
            sendfile on;
            limit_conn_zone $binary_remote_addr zone=arbeit:10m;
            client_body_timeout 60; client_header_timeout 60; send_timeout 60;
            keepalive_timeout 10 10; reset_timedout_connection on;
            tcp_nodelay on; tcp_nopush on;
            gzip on; gzip_buffers 16 8k; gzip_comp_level 1; gzip_http_version 1.1;
            gzip_min_length 10; gzip_types text/plain text/css; gzip_vary on; gzip_disable msie6;
            add_header X-Frame-Options DENY;
            map $request_method $not_allowed_method { default 1; GET 0; HEAD 0; POST 0; }
            map $http_user_agent $bad_bot { default 0; ~*^Lynx 0; libwww-perl 1; }
            geo $status_denied { default 1; 127.0.0.1 0; }
            upstream phpcgi { least_conn; server 127.0.0.1:9 weight=1; keepalive 5; }
            server { listen 127.0.0.1:@PORT@ default_server; server_name _; return 444; }
            server {
                listen 127.0.0.1:@PORT@;
                server_name 127.0.0.1 example.com;
                limit_conn arbeit 32;
                if ($bad_bot) { return 444; }
                if ($not_allowed_method) { return 405; }
                root @DIR@/www;
                index index.php index.html;
                fastcgi_keep_conn on;
                location / {
                    location ~* /files/styles/ { access_log off; expires 30d; try_files $uri @php; }
                    location ~* ^.+\\.(?:css|cur|js|jpe?g|gif|ico|png|html|xml|svg)$ {
                        access_log off; expires 30d; tcp_nodelay off;
                        open_file_cache max=3000 inactive=120s; open_file_cache_valid 45s;
                        open_file_cache_min_uses 2; open_file_cache_errors off;
                    }
                    location ~* ^(?:.+\\.(?:htaccess|inc|sh|sql)|code-style\\.pl)$ { return 404; }
                    try_files $uri @php;
                }
                location @php { fastcgi_param SCRIPT_NAME /index.php; fastcgi_pass phpcgi; }
                location ^~ /.git { return 404; }
                error_page 404 /missing.html;
            }
        """,
        left_out=frozenset(("access_log_buffer", "access_log_flush")),
    ),
}

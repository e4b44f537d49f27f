"""Texts that Nginx's relatives print for ``-V``, as published."""

from __future__ import annotations

# https://github.com/openresty/openresty/pull/524
OPENRESTY = """\
nginx version: openresty/1.15.8.1
built by gcc 4.8.5 20150623 (Red Hat 4.8.5-36) (GCC)
built with OpenSSL 1.1.0j  20 Nov 2018
TLS SNI support enabled
configure arguments: --prefix=/usr/local/openresty/nginx --with-cc-opt=-O2\
 --add-module=../ngx_devel_kit-0.3.1rc1 --add-module=../echo-nginx-module-0.61\
 --add-module=../ngx_lua-0.10.15 --add-module=../headers-more-nginx-module-0.33\
 --add-module=../ngx_stream_lua-0.0.7\
 --with-ld-opt=-Wl,-rpath,/usr/local/openresty/luajit/lib --with-threads --with-pcre-jit\
 --with-http_v2_module --with-http_addition_module --with-http_auth_request_module\
 --with-openssl=/root/OpenResty/openresty-1.15.8.1/openssl-1.1.0j --with-stream\
 --with-stream_ssl_module --with-stream_ssl_preread_module --with-http_ssl_module
"""
# https://github.com/webserver-llc/angie/issues/5
ANGIE_FIRST = """\
Angie version: Angie/1.0.0
built by gcc 12.2.0 (GCC)
configure arguments:
"""
# Debian package; https://github.com/webserver-llc/angie/pull/71 asked for the second line.
ANGIE = """\
Angie version: Angie/1.11.0
nginx version: nginx/1.29.3
built on Wed, 24 Dec 2025 10:16:08 GMT
built with OpenSSL 3.5.4 30 Sep 2025
TLS SNI support enabled
configure arguments: --prefix=/etc/angie --conf-path=/etc/angie/angie.conf\
 --modules-path=/usr/lib/angie/modules --pid-path=/run/angie.pid --sbin-path=/usr/sbin/angie\
 --user=angie --group=angie --with-file-aio --with-http_acme_module --with-http_ssl_module\
 --with-http_v2_module --with-http_v3_module --with-stream_mqtt_preread_module --with-threads\
 --feature-cache=../angie-feature-cache --with-ld-opt='-Wl,-z,relro -Wl,-z,now'
"""
ANGIE_PRO = ANGIE.replace("Angie/1.11.0", "Angie/1.11.0 (PRO)")
# https://github.com/LordArrin/freenginx-hard
FREENGINX = """\
nginx version: freenginx/1.31.1
built by gcc 15.2.0 (Alpine 15.2.0)
built with OpenSSL 4.0.0 14 Apr 2026
TLS SNI support enabled
configure arguments: --prefix=/usr/share/nginx --sbin-path=/usr/sbin/nginx --with-compat\
 --with-http_ssl_module --with-http_v2_module --with-http_v3_module --with-stream\
 --without-http_ssi_module --with-file-aio --with-threads --add-module=/tmp/ngx_brotli\
 --with-pcre-jit --with-pcre=/tmp/pcre2-10.47
"""

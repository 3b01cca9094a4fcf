# TLS handshakes over loopback, guest to guest, and data both ways.
openssl req -x509 -newkey rsa:1024 -nodes -keyout key -out cert -days 2 -subj /CN=localhost \
    -config /dev/null -addext basicConstraints=CA:TRUE 2>/dev/null
echo "certificate $?"
port=$((20000 + $$ % 20000))
openssl s_server -accept 127.0.0.1:$port -key key -cert cert -rev -quiet -naccept 2 >/dev/null 2>&1 &
for version in tls1_2 tls1_3; do
    for ((try = 0; try < 100; try++)); do
        printf 'hello through %s\nCLOSE\n' $version |
            openssl s_client -connect 127.0.0.1:$port -$version -CAfile cert -verify_return_error \
                -brief -ign_eof >answer 2>said && break
        sleep 0.1
    done
    head -n 1 answer
    gawk '/^Protocol|^Ciphersuite|^Verification/' said
done
wait $!
echo "server $?"

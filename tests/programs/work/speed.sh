# `openssl speed` runs its timers and ends; the numbers are its own.
openssl speed -mr -seconds 1 -bytes 8192 md5 2>/dev/null | cut -d: -f1-2
openssl speed -mr -seconds 1 rsa1024 2>/dev/null | cut -d: -f1-2

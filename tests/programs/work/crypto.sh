# Hash, encrypt, sign, verify N bytes.
head -c "$N" /dev/zero | openssl enc -aes-256-ctr -K 00 -iv 00 2>/dev/null >data
for hash in md5 sha1 sha256 sha512 sha3-256 blake2b512; do openssl dgst -$hash <data; done
key=000102030405060708090a0b0c0d0e0f iv=0001020304050607
for cipher in aes-128-cbc aes-256-ctr aes-192-cfb chacha20 camellia-128-cbc des-ede3-cbc; do
    openssl enc -$cipher -K $key -iv $iv <data 2>/dev/null >sealed
    echo "$cipher $? $(md5sum <sealed) $(openssl enc -d -$cipher -K $key -iv $iv <sealed 2>/dev/null | md5sum)"
done
openssl genrsa 1024 2>/dev/null >key
openssl dgst -sha256 -sign key -out signature data
openssl rsa -in key -pubout 2>/dev/null >public
openssl dgst -sha256 -verify public -signature signature data
openssl dgst -sha256 -verify public -signature signature public
openssl ecparam -name prime256v1 -genkey -noout >ec
openssl dgst -sha256 -sign ec -out signature data
openssl ec -in ec -pubout 2>/dev/null >public
openssl dgst -sha256 -verify public -signature signature data
openssl prime 2305843009213693951 4611686018427387847

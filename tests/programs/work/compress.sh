# N bytes through gzip and bzip2 and back.
gawk -v n="$N" 'BEGIN { s = 42; while (n > 0) { s = (s * 16807) % 2147483647
    line = s " " s % 1000 " the quick brown fox " s % 7; print line; n -= length(line) + 1 } }' >data
head -c "$N" data >file
sha256sum <file
for how in "gzip -n1" "gzip -n6" bzip2; do
    $how <file >packed
    echo "$how $(wc -c <packed) $(md5sum <packed)"
    ${how%% *} -d <packed | sha256sum
done
gzip -dc packed 2>/dev/null; echo "not gzip: $?"
head -c 1000 packed | bzip2 -t 2>/dev/null; echo "cut: $?"

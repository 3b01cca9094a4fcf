# Checksums by as many processes as there are processors, three times, against the same one after the
# other; then a pipe between each two.
n=$(grep -c '^cpu[0-9]' /proc/stat)
echo "parallel: processors $n"
part() { seq $(($1 * 20000)) $(($1 * 20000 + 19999)) | md5sum; }
for i in $(seq 8); do part $i > /tmp/one.$i; done
for round in 1 2 3; do
    for i in $(seq 8); do part $i > /tmp/many.$i & done
    wait
    for i in $(seq 8); do cmp /tmp/one.$i /tmp/many.$i || echo "parallel: wrong sum $i"; done
done
cat /tmp/many.* | md5sum
for i in $(seq $((2 * n))); do (seq 5000 | cat | cat | wc -l > /tmp/count.$i) & done
wait
sort -u /tmp/count.*

# Fields, associative arrays, regular expressions, printf, sorting, co-processes.
gawk -v n="$N" 'BEGIN { s = 7; for (i = 0; i < n; i++) { s = (s * 16807) % 2147483647
    printf "%s %d %.3f w%d\n", "host" s % 97, s, s / 3e5, s % 1013 } }' >log
gawk '{ hits[$1]++; sum[$1] += $3; if ($4 ~ /^w1.*[357]$/) odd++; gsub(/[0-9]+/, "<&>", $4); size += length($4) }
    END { n = asorti(hits, by); for (i = 1; i <= 5; i++) printf "%-8s %5d %12.3f\n", by[i], hits[by[i]], sum[by[i]]
        print n, odd, size, length(log(2) ""), sin(1), exp(1), int(-3.7), 2 ** 0.5, substr("hello", 2, 3), toupper("x") }' log
gawk 'BEGIN { cmd = "sort -n"; for (i = 5; i > 0; i--) print i * i |& cmd; close(cmd, "to")
    while ((cmd |& getline x) > 0) printf "%s ", x; print ""; print strtonum("0x1F"), xor(5, 3), strftime("%F", 0, 1) }'
gawk -F, 'NR % 1000 == 0 { print NR, NF, $0 }' log | cksum

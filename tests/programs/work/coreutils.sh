# Text of N lines through the text tools.
seq 1 "$N" >numbers
sort -rn numbers | head -n 3
factor $(tail -n 20 numbers) | cksum
od -An -tx1 numbers | md5sum
split -n 4 numbers part. && cat part.* | sha256sum
cut -c1-3 numbers | sort | uniq -c | sort -k1,1nr -k2,2 | head -n 5
comm -12 <(seq 1 2 200 | sort) <(seq 1 3 200 | sort) | tr '\n' ,; echo
cp numbers copy; mv copy moved; ln -s moved link; ln moved hard
stat -c '%n %s %h %F' moved link hard
touch -d '2001-02-03 04:05:06 UTC' moved; TZ=UTC0 date -r moved '+%F %T %j'
dd if=numbers bs=1000 count=3 status=none | wc -c
truncate -s 12345 moved; wc -c <moved; du --apparent-size -b moved
ls -l --time-style=+%Y moved | tr -s ' ' | cut -d' ' -f1,5,6,7
rm -r part.*; ls

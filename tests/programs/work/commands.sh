# N short commands, each a process of its own, and N builtins and subshells.
for ((i = 0; i < N; i++)); do
    basename "/some/where/file$i.c" .c
    expr $i + 1
    : $(echo $i)
done | cksum

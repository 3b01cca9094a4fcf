# Pipes, here-documents, substitutions, traps, arithmetic, subshells, job control: N rounds.
set -u
trap 'echo trap-exit $?' EXIT
trap 'hits=$((hits + 1))' USR1
hits=0
total=0
for ((i = 0; i < N; i++)); do
    words=$(tr a-z A-Z <<END | sort | uniq -c | tr -s ' '
alpha
beta $i
alpha
END
    )
    total=$((total + ${#words}))
    kill -USR1 $$
    case $i in *7) echo "round $i: $words" ;; esac
done
echo "total $total hits $hits"
mkdir -p a/b/c
for name in one two three; do printf '%s\n' "$name" >"a/b/$name"; done
cat a/b/one a/b/two a/b/three | tee a/all | wc
ls a/b | tac | nl
join <(seq 1 5) <(seq 3 7) | tr '\n' ' '
echo
( exit 3 ); echo "subshell $?"
( kill -9 $BASHPID ); echo "killed $?"
( ulimit -t 10; exec bash -c 'echo $1; exit 4' x inner ); echo "exec $?"
sleep 0.01 & wait $!; echo "waited $?"
coproc up { tr a-z A-Z; }
echo through >&"${up[1]}"
eval "exec ${up[1]}>&-"
read -r line <&"${up[0]}"; echo "$line"
mkfifo pipe; (echo fifo >pipe) & cat pipe; wait
timeout 0.05 sleep 5; echo "timeout $?"
read -r -t 0.01 line </dev/null; echo "read $?"
[[ abc123 =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[2]} ${BASH_REMATCH[1]}"
declare -A map=([x]=1 [y]=2); for k in x y; do echo "$k=${map[$k]}"; done
printf '%08.3f %x %q\n' 3.14159 255 "a b"

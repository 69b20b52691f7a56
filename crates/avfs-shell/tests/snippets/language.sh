for i in 1 2 3; do echo "item $i"; done
#---
for i in {1..3}; do printf '%s ' "$i"; done; echo
#---
for ((i = 0; i < 3; i++)); do echo $i; done
#---
i=0; while [ $i -lt 3 ]; do i=$((i + 1)); echo $i; done
#---
i=3; until [ $i -eq 0 ]; do echo $i; i=$((i-1)); done
#---
for i in 1 2 3 4; do [ $i -eq 2 ] && continue; [ $i -eq 4 ] && break; echo $i; done
#---
if [ -f README.md ]; then echo yes; elif [ -d src ]; then echo dir; else echo no; fi
#---
case "$(basename data.json)" in *.json) echo json;; *.csv|*.tsv) echo table;; *) echo other;; esac
#---
greet() { local who=${1:-world}; echo "hello $who"; }; greet; greet you
#---
f() { return 3; }; f; echo $?
#---
false || echo fallback; true && echo next; ! false && echo negated
#---
false; echo $?; true; echo $?
#---
exit 3
#---
set -e; false; echo unreachable
#---
set -euo pipefail; echo ok | grep -q nothing; echo unreachable
#---
set -u; echo "${unset_variable:-default}"
#---
x=hello; echo ${#x} ${x:1:3} ${x^^} ${x/l/L} ${x//l/L} ${x%lo} ${x#he}
#---
path=/a/b/c.tar.gz; echo ${path##*/} ${path%/*} ${path%%.*} ${path#*.}
#---
unset v; echo ${v:-a} ${v:=b} $v ${v:+c}
#---
a=(one two three); echo ${a[1]} ${#a[@]} "${a[@]}"
#---
a=(); a+=(x); a+=(y z); for e in "${a[@]}"; do echo "$e"; done
#---
declare -A m; m[k]=v; m[x]=y; echo ${m[k]} ${#m[@]}
#---
declare -A count; for w in $(cat words.txt); do count[$w]=$(( ${count[$w]:-0} + 1 )); done; echo ${count[alpha]}
#---
IFS=: read -r a b c <<< '1:2:3'; echo "$c $b $a"
#---
read -r first rest <<< 'one two three'; echo "$rest"
#---
mapfile -t lines < words.txt; echo ${#lines[@]} ${lines[0]}
#---
echo "$(echo nested "$(echo deep)")"
#---
echo `echo old style`
#---
x=5; ((x++)); ((x += 2)); echo $x; ((x > 5)) && echo big
#---
let y=3*4; echo $y
#---
[[ hello == h* ]] && echo glob; [[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"
#---
[[ -f README.md && ! -d README.md ]] && echo file
#---
[ "a" = "a" -a 1 -lt 2 ] && echo both
#---
x=1; (x=2; echo $x); echo $x
#---
export NAME=val; bash -c 'echo $NAME'
#---
NAME=once env | grep ^NAME=
#---
cd src && pwd | xargs basename && cd .. && ls | wc -l
#---
pushd src > /dev/null; ls; popd > /dev/null; ls -d src
#---
trap 'echo cleanup' EXIT; echo work
#---
echo a; echo b & wait; echo c
#---
time_cmd() { "$@"; }; time_cmd echo passed through
#---
set -- a b c; echo $# $1 $3; shift; echo "$@"
#---
echo "$0" | wc -l; echo ${BASH_VERSION:+set}
#---
while getopts 'ab:' opt -a -b val; do echo $opt ${OPTARG:-none}; done
#---
eval 'x=7; echo $x'
#---
source /dev/stdin <<< 'y=9'; echo $y
#---
echo {a,b}{1,2} {01..03}
#---
echo *.md src/*.py
#---
echo nomatch*; shopt -s nullglob; echo nomatch*
#---
echo "a
b" | wc -l
#---
printf '%s\n' "$@" | wc -l
#---
echo ${PIPESTATUS[0]}; false | true; echo ${PIPESTATUS[0]}
#---
command -v ls >/dev/null && echo found; command -v nosuchcommand || echo missing
#---
nosuchcommand; echo $?
#---
type cd | head -1
#---
date -d @0 -u +%Y-%m-%d
#---
test $(date +%Y) -ge 2024 && echo recent
#---
sleep 0.01; echo slept
#---
true | false; echo $?; set -o pipefail; false | true; echo $?
#---
n=0; while read -r l; do n=$((n+1)); done < words.txt; echo $n
#---
result=$(cat missing 2>/dev/null || echo default); echo "$result"
#---
if ! grep -q xyz README.md; then echo absent; fi
#---
printf -v padded '%03d' 7; echo $padded
#---
s='a,b,c'; IFS=, ; for p in $s; do echo $p; done
#---
x="with spaces"; for w in $x; do echo $w; done; for w in "$x"; do echo "$w"; done
#---
diff <(sort words.txt) <(sort -u words.txt) > /dev/null; echo $?
#---
select_max() { local m=$1; for v; do ((v > m)) && m=$v; done; echo $m; }; select_max 3 9 4
#---
fact() { [ $1 -le 1 ] && echo 1 || echo $(( $1 * $(fact $(($1 - 1))) )); }; fact 5
#---
str="key=value"; echo "${str%%=*} -> ${str#*=}"
#---
[[ "$(cat empty.txt)" == "" ]] && echo nothing
#---
echo $'tab\there'
#---
unset x; echo "${x?unset}" 2>/dev/null; echo after
#---
readonly R=1; echo $R
#---
a=1 b=2; echo $((a+b)) $((a<b)) $((a==b ? 10 : 20))
#---
echo $((16#ff)) $((010)) $((5/2)) $((-7%3))
#---
if then fi

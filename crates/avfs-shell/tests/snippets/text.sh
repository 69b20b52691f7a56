sort numbers.txt
#---
sort -n numbers.txt
#---
sort -rn numbers.txt | head -1
#---
sort -u words.txt
#---
sort words.txt | uniq -c | sort -rn | awk '{print $1, $2}'
#---
sort -t, -k2 -n data.csv
#---
sort -t, -k3,3 -r data.csv | head -2
#---
uniq -d <(sort words.txt)
#---
cut -d, -f1,3 data.csv
#---
cut -c1-4 words.txt
#---
cut -d' ' -f2 log.txt | sort | uniq -c | awk '{print $2": "$1}'
#---
tr a-z A-Z < words.txt
#---
tr -d '\n' < numbers.txt; echo
#---
echo 'a  b   c' | tr -s ' '
#---
echo hello | tr '[:lower:]' '[:upper:]'
#---
sed 's/alpha/ALPHA/' words.txt
#---
sed -i 's/TODO/DONE/g' src/main.py && grep -c DONE src/main.py
#---
sed -e 's/a/1/g' -e '/beta/d' words.txt
#---
sed '/^$/d' README.md | wc -l
#---
sed -n '/def add/,/return/p' src/util.py
#---
sed 's/\([a-z]*\)\.\([a-z]*\)/\2.\1/' words.txt
#---
sed -E 's/([0-9]+)/<\1>/g' log.txt | head -2
#---
sed '1d;$d' numbers.txt
#---
sed '2a\inserted' numbers.txt | head -4
#---
sed '1i\first' words.txt | head -2
#---
sed -i.bak 's/beta/BETA/' words.txt; cat words.txt words.txt.bak | grep -ci beta
#---
sed 's|/usr|/opt|' <<< '/usr/bin'
#---
awk '{print $1}' log.txt
#---
awk -F, 'NR>1 {sum += $2} END {print sum}' data.csv
#---
awk -F, '{print $NF}' data.csv
#---
awk 'length($0) > 5' words.txt
#---
awk '/ERROR/ {n++} END {print n+0}' log.txt
#---
awk '{count[$2]++} END {for (k in count) print k, count[k]}' log.txt | sort
#---
awk 'NR==2,NR==3' words.txt
#---
awk -v name=world 'BEGIN {printf "hello %s\n", name}'
#---
awk '{ $1=""; print }' log.txt | head -1
#---
awk 'BEGIN { for (i = 1; i <= 3; i++) printf "%d ", i; print "" }'
#---
awk -F'[=,]' '/id=/ {print $2}' log.txt | head -1
#---
awk '{gsub(/a/, "A"); print toupper(substr($0, 1, 1)) substr($0, 2)}' words.txt
#---
awk 'NR % 2 == 0' numbers.txt
#---
awk '{a[NR]=$0} END {for (i=NR; i>0; i--) print a[i]}' words.txt
#---
paste -d, numbers.txt numbers.txt | head -2
#---
paste -sd+ numbers.txt
#---
paste -sd+ numbers.txt | bc
#---
join <(printf '1 a\n2 b\n') <(printf '1 x\n2 y\n')
#---
comm -12 <(sort words.txt) <(printf 'alpha\ngamma\n')
#---
printf '%s\n' one two three
#---
printf '%05d|%-6s|%x|%.2f\n' 42 ab 255 3.14159
#---
printf 'a\tb\n' | expand -t4
#---
echo -e 'a\tb\nc'
#---
echo -n no newline
#---
echo "quotes 'inside' \"these\" \$HOME"
#---
seq 1 5
#---
seq -s, 2 2 10
#---
seq 3 | xargs echo
#---
seq 4 | xargs -n2 echo pair
#---
echo 'a b c' | xargs -I{} echo '[{}]'
#---
ls src/*.py | xargs wc -l | tail -1 | awk '{print $2}'
#---
fold -w 10 <<< 'a very long line of text'
#---
column -t -s, data.csv
#---
echo '3 + 4 * 2' | bc
#---
expr 3 + 4
#---
echo $((2 ** 10 % 1000))
#---
shuf -n1 <<< only
#---
tee copy.txt < words.txt | wc -l; cmp words.txt copy.txt && echo same
#---
cat words.txt | while read -r line; do echo "<$line>"; done
#---
while IFS=, read -r name count city; do echo "$city:$name"; done < data.csv
#---
jq -r .name data.json
#---
jq '.items | length' data.json
#---
jq -r '.items[] | select(.price > 5) | .id' data.json
#---
jq -c '.items | map({id, price})' data.json
#---
jq -r '.items[] | [.id, .price] | @csv' data.json
#---
jq '.version = 2' data.json | jq .version
#---
jq -e .missing data.json; echo $?
#---
jq -r 'keys[]' data.json
#---
jq -n --arg x 1 '{x: $x}'
#---
jq -s 'add' <<< '1 2 3'
#---
echo '{"a":[1,2]}' | jq '.a[0]'

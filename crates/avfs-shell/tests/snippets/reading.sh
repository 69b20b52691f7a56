cat README.md
#---
head -n 3 src/main.py
#---
head -3 log.txt
#---
tail -n 2 log.txt
#---
tail -n +3 README.md
#---
sed -n '2,4p' src/main.py
#---
wc -l src/*.py
#---
wc -w < README.md
#---
cat -n src/util.py
#---
nl -ba src/util.py
#---
ls
#---
ls -1 src
#---
ls -a
#---
ls -d */
#---
ls missing 2>/dev/null; echo $?
#---
find . -name '*.py' | sort
#---
find . -type f -name '*.md' -not -path './node_modules/*' | sort
#---
find src -maxdepth 1 -type f | sort | wc -l
#---
find . -type d | sort
#---
find . -name '*.py' -exec grep -l TODO {} + | sort
#---
find . -size +1k -type f | sort
#---
find . -type f -empty
#---
find . -name '*.txt' -print0 | xargs -0 -n1 basename | sort
#---
find . -type f \( -name '*.md' -o -name '*.csv' \) | sort
#---
grep -n TODO src/main.py
#---
grep -rn TODO src | sort
#---
grep -rl 'import' . | sort
#---
grep -c ERROR log.txt
#---
grep -i error log.txt | head -2
#---
grep -v INFO log.txt
#---
grep -E '^[0-9]+-[0-9]+-[0-9]+ (ERROR|WARN)' log.txt
#---
grep -o 'id=[0-9]*' log.txt
#---
grep -A1 -B1 'WARN' log.txt
#---
grep -q ERROR log.txt && echo yes || echo no
#---
grep -q NOTHING log.txt; echo "status $?"
#---
grep -w def src/util.py | wc -l
#---
grep -rn --include='*.py' 'def ' . | sort
#---
grep -n 'def \(add\|sub\)' src/util.py
#---
grep -F 'a.b' words.txt
#---
grep -h import src/*.py | sort -u
#---
grep -L TODO src/*.py | sort
#---
grep -e alpha -e gamma words.txt
#---
grep -m1 -n e words.txt
#---
egrep 'alpha|beta' words.txt
#---
stat -c '%n %s' README.md
#---
stat -c %F src
#---
test -f README.md && echo file; test -d src && echo dir; test -e nothing || echo none
#---
[ -s empty.txt ] || echo empty
#---
file_count=$(find . -type f | wc -l); [ "$file_count" -gt 5 ] && echo many
#---
cat missing.txt; echo "exit: $?"
#---
diff src/main.py src/main.py && echo same
#---
printf 'a\nb\n' > x; printf 'a\nc\n' > y; diff x y
#---
printf 'a\nb\n' > x; printf 'a\nc\n' > y; diff -u x y | tail -n +3
#---
cmp README.md README.md && echo identical
#---
basename /a/b/file.tar.gz .gz; dirname /a/b/file.tar.gz
#---
realpath src/../README.md | xargs basename
#---
du -a src >/dev/null && echo ok
#---
head -c 10 README.md
#---
tail -c 5 README.md | od -c | head -1
#---
sha256sum README.md | cut -d' ' -f1
#---
md5sum README.md | awk '{print $1}'
#---
base64 < words.txt | base64 -d | head -2
#---
tac numbers.txt | head -3
#---
rev words.txt | head -2

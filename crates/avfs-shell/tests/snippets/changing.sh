mkdir -p build/out && touch build/out/a && ls build/out
#---
mkdir src 2>/dev/null; echo $?
#---
cp README.md copy.md && cat copy.md | head -1
#---
cp -r src backup && ls backup
#---
mv README.md DOC.md && ls *.md
#---
mv src lib && ls lib
#---
rm README.md && ls README.md 2>/dev/null; echo $?
#---
rm -rf src && test -e src || echo gone
#---
rm -f nothing; echo $?
#---
rm nothing 2>/dev/null; echo $?
#---
rmdir notes 2>/dev/null || echo 'not empty'
#---
mkdir d && rmdir d && echo ok
#---
ln -s README.md link && cat link | head -1 && readlink link
#---
ln -s src s && ls s
#---
chmod +x src/main.py && [ -x src/main.py ] && echo executable
#---
chmod 600 README.md && stat -c %a README.md
#---
touch -d '2020-01-01' old && [ README.md -nt old ] && echo newer
#---
echo line >> README.md; tail -1 README.md
#---
> README.md; wc -c < README.md
#---
cat > new.py <<'EOF'
def main():
    print("$HOME")
EOF
cat new.py
#---
name=world; cat <<EOF
hello $name
$((1 + 1))
EOF
#---
cat <<-EOF
	indented
	EOF
#---
cat <<'A' > a; cat <<'B' > b; cat a b
one
A
two
B
#---
{ echo a; echo b; } > both && cat both
#---
(cd src && ls) && basename "$(ls -d src)"
#---
echo error >&2 2>/dev/null; echo done
#---
ls missing src > out.txt 2> err.txt; cat out.txt | wc -l; [ -s err.txt ] && echo err
#---
ls missing 2>&1 | wc -l
#---
echo a > f; echo b > f; cat f
#---
set -o noclobber; echo a > f; echo b > f 2>/dev/null || echo kept; cat f
#---
tar cf t.tar src && tar tf t.tar | sort
#---
tar czf t.tgz src notes && mkdir x && tar xzf t.tgz -C x && ls x
#---
gzip -k words.txt && gunzip -c words.txt.gz | head -1
#---
truncate -s 3 words.txt && cat words.txt; echo
#---
dd if=words.txt of=part bs=1 count=5 2>/dev/null; cat part; echo
#---
split -l 2 words.txt part_ && ls part_*
#---
printf 'a\nb\nc\n' > x; printf 'a\nB\nc\n' > y; diff -u x y > p; patch x < p > /dev/null && cat x
#---
install -d made/deep && ls made
#---
for f in src/*.py; do cp "$f" "$f.bak"; done; ls src
#---
for f in *.txt; do mv "$f" "${f%.txt}.text"; done; ls *.text
#---
find . -name '*.py' | while read -r f; do echo "# end" >> "$f"; done; grep -rc '# end' src | sort
#---
find . -name '*.txt' -delete; ls *.txt 2>/dev/null | wc -l
#---
mktemp -d >/dev/null && echo ok
#---
cp missing there 2>/dev/null; echo $?
#---
cp src elsewhere 2>/dev/null; echo $?
#---
mkdir -p a/b/c; touch a/b/c/f; find a | sort
#---
awk '{print > ($1 ".out")}' <<< 'x 1'; cat x.out
#---
echo x | tee a b c >/dev/null; cat a b c
#---
cat README.md words.txt > all && wc -l < all
#---
sed -i '$a\last line' README.md; tail -n1 README.md
#---
xargs rm -f < <(ls *.txt); ls | grep -c txt

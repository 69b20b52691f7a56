ls -a
#---
ls -A src
#---
ls -1
#---
ls -l | wc -l
#---
ls -la | wc -l
#---
ls -l src | tail -n +2 | awk '{print $1, $2, $5, $NF}'
#---
ls -ld src notes | awk '{print $1, $NF}'
#---
ls -lh data.json | awk '{print $5}'
#---
ls -lnG words.txt | awk '{print NF}'
#---
ls -lo words.txt | awk '{print NF}'
#---
ls -R
#---
ls -r
#---
ls -rS
#---
ls -S
#---
ls -X
#---
ls -U | sort
#---
ls -d src notes
#---
ls -d */
#---
ls -F
#---
ls -p
#---
ls -m
#---
ls -Q src
#---
ls --color=never
#---
ls --color=auto src
#---
ls --group-directories-first
#---
ls --group-directories-first -r
#---
ls -1 src notes words.txt
#---
ls nofile words.txt; echo $?
#---
ls nofile src 2>/dev/null; echo $?
#---
ls --no-such-option; echo $?
#---
ls -tr a b 2>/dev/null; touch -d '2020-01-01' b; touch -d '2021-01-01' a; ls -t a b; ls -tr a b
#---
ls --sort=size
#---
ls -s words.txt | awk '{print NF}'
#---
ln -s src l; ls l; ls -l l | awk '{print $1, $(NF-2), $NF}'; ls -dF l; ls -L l
#---
ln -s words.txt w; ls -F w; ls -p w
#---
touch f10 f9 f1; ls -v f*
#---
mkdir -p a/b; ls -R a
#---
chmod +x words.txt; ls -F words.txt
#---
ls src/ src/main.py
#---
ls -l --time-style=long-iso words.txt | awk '{print length($6), length($7)}'
#---
cp words.txt w.txt; cmp words.txt w.txt; echo $?
#---
cp -v words.txt w.txt
#---
cp -n words.txt numbers.txt; head -1 numbers.txt
#---
cp -t notes words.txt numbers.txt; ls notes
#---
cp --target-directory=notes words.txt; ls notes
#---
cp --parents src/main.py notes; find notes | sort
#---
cp -r src lib; ls -A lib
#---
cp -r src notes; find notes | sort
#---
cp -R src/. notes; ls -A notes
#---
cp -a src lib && diff -r src lib; echo $?
#---
cp -T src words.txt 2>/dev/null; echo $?
#---
cp -rT src lib; ls -A lib
#---
cp src lib; echo $?
#---
cp nofile x; echo $?
#---
cp words.txt; echo $?
#---
cp words.txt words.txt; echo $?
#---
cp words.txt numbers.txt nodir; echo $?
#---
cp -r src src/inner; echo $?
#---
cp words.txt no/dir; echo $?
#---
cp -u words.txt numbers.txt; echo $?
#---
chmod 700 words.txt; cp words.txt w; stat -c %a w
#---
touch -d 2020-01-01 words.txt; cp -p words.txt w; stat -c %y w | cut -c1-10
#---
ln -s words.txt l; cp l copy; cp -P l link; cp -r l link2; stat -c %F copy link link2
#---
cp -rv src lib | sort
#---
cp words.txt src; ls src
#---
cp words.txt numbers.txt src; ls src
#---
mv words.txt w.txt; ls
#---
mv -v words.txt w.txt
#---
mv -n words.txt numbers.txt; head -1 numbers.txt; ls words.txt
#---
mv -f words.txt numbers.txt; head -1 numbers.txt
#---
mv -t notes words.txt numbers.txt; ls notes
#---
mv -T words.txt w; ls w
#---
mv words.txt notes/; ls notes
#---
mv src notes; find notes | sort
#---
mv src lib; ls -A lib
#---
mv nofile x; echo $?
#---
mv words.txt numbers.txt nodir; echo $?
#---
mv src src/inner; echo $?
#---
mkdir -p notes/src/x; mv src notes; echo $?
#---
mv words.txt; echo $?
#---
mv -u words.txt numbers.txt; echo $?
#---
mv words.txt ./numbers.txt src/..; ls
#---
rm words.txt; ls
#---
rm -v words.txt numbers.txt
#---
rm -f nofile; echo $?
#---
rm nofile; echo $?
#---
rm src; echo $?
#---
rm -r src; ls
#---
rm -rv notes
#---
rm -d notes; echo $?
#---
mkdir e; rm -d e; ls
#---
rm -rf src notes nofile; ls
#---
rm -rf .; echo $?
#---
rm -rf ..; echo $?
#---
rm; echo $?
#---
rm -f; echo $?
#---
rm -- words.txt; ls words.txt; echo $?
#---
ln -s src l; rm l; ls src
#---
mkdir -p a/b/c; find a
#---
mkdir -pv a/b
#---
mkdir -v a
#---
mkdir a a; echo $?
#---
mkdir no/dir; echo $?
#---
mkdir -m 700 a; stat -c %a a
#---
mkdir -p -m 750 a/b; stat -c %a a a/b
#---
mkdir -m u=rwx,g=rx,o= a; stat -c %a a
#---
mkdir words.txt; echo $?
#---
mkdir -p words.txt; echo $?
#---
chmod 755 words.txt; stat -c %a words.txt
#---
chmod u+x,g-r words.txt; stat -c %a words.txt
#---
chmod a=r words.txt; stat -c %a words.txt
#---
chmod +x words.txt; stat -c %a words.txt
#---
chmod -x src/main.py; stat -c %a src/main.py
#---
chmod -R u+w,o-r src; stat -c '%a %n' src src/main.py
#---
chmod -R a+X src; stat -c '%a' src src/main.py
#---
chmod --reference=src words.txt; stat -c %a words.txt
#---
chmod -v 600 words.txt | wc -l
#---
chmod 999 words.txt; echo $?
#---
chmod u+q words.txt; echo $?
#---
chmod 644 nofile; echo $?
#---
chmod 4755 words.txt; stat -c '%a %A' words.txt
#---
stat -c '%n %s %F' words.txt src empty.txt
#---
stat -c %N words.txt
#---
ln -s words.txt l; stat -c '%N %F' l; stat -L -c %F l
#---
stat --format='%A %a' words.txt
#---
stat --printf='%n\t%s\n' words.txt numbers.txt
#---
stat -c '[%8s] [%-8s]' words.txt
#---
touch -d '2020-01-02 03:04:05 UTC' f; stat -c '%Y' f; TZ=UTC stat -c '%y' f
#---
stat nofile; echo $?
#---
stat -c %f words.txt
#---
ln -s words.txt l; stat words.txt l | grep File
#---
diff words.txt numbers.txt
#---
diff words.txt words.txt; echo $?
#---
diff -q words.txt numbers.txt; echo $?
#---
diff -s words.txt words.txt
#---
diff <(sort words.txt) <(sort -u words.txt)
#---
diff -u <(sort words.txt) <(sort -u words.txt) | tail -n +3
#---
diff -u words.txt numbers.txt | tail -n +3
#---
diff -U1 data.csv <(sed 2d data.csv) | tail -n +3
#---
diff -U0 log.txt <(sed 's/WARN/NOTE/' log.txt) | tail -n +3
#---
diff -u --label a --label b words.txt numbers.txt | head -2
#---
diff -i words.txt <(tr a-z A-Z < words.txt); echo $?
#---
diff -w words.txt <(sed 's/$/  /' words.txt); echo $?
#---
diff -b <(echo 'a  b') <(echo 'a b'); echo $?
#---
diff -b <(echo 'a b') <(echo 'ab'); echo $?
#---
diff -B words.txt <(sed G words.txt); echo $?
#---
diff -r src notes
#---
cp -r src lib; echo x >> lib/util.py; diff -r src lib; echo $?
#---
cp -r src lib; echo x >> lib/util.py; diff -rq src lib; echo $?
#---
cp -r src lib; rm lib/main.py; diff -r src lib
#---
cp -r src lib; rm lib/main.py; diff -rN src lib | head -3
#---
cp -r src lib; mkdir lib/d; diff src lib; diff -r src lib
#---
cp -r src lib; rm lib/.hidden lib/util.py; diff -rq -x '*.py' -x '.*' src lib; echo $?
#---
diff words.txt src; echo $?
#---
diff words.txt nofile; echo $?
#---
diff words.txt; echo $?
#---
printf 'a' > a; printf 'a\n' > b; diff a b
#---
printf 'a\0b' > a; printf 'a\0c' > b; diff a b; echo $?
#---
printf 'a\nb\n' | diff - words.txt; echo $?
#---
diff empty.txt words.txt | head -3
#---
diff words.txt empty.txt | head -1
#---
seq 1 30 > a; seq 1 30 | sed '5d;20s/$/x/' > b; diff a b; diff -u a b | tail -n +3
#---
seq 1 10 > a; seq 3 12 > b; diff a b; diff -u a b | tail -n +3
#---
printf '%s\n' a b a b a b > x; printf '%s\n' a b a b > y; diff x y; diff y x
#---
printf '%s\n' a x b x c > x; printf '%s\n' a b x c x > y; diff x y | wc -l
#---
printf '{\n  a\n}\n{\n  b\n}\n' > x; printf '{\n  a\n}\n{\n  c\n}\n{\n  b\n}\n' > y; diff x y

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 (its Hydra) from the Python package index.
# Behaviour: in a file of mpiexec -configfile, quotes are ordinary characters and blanks inside them separate words; a lone ':'
#   inside a line begins another program, though each line is one already, so that no program can have these arguments.
# A good guess: the lines are read as a shell reads them, and ':' in a line is an argument, for which MPI has files of options.
# Seen: the argument "two words" arrives as two words with their quotes; "a : -n 1 PROGRAM b" starts two programs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mpich==5.0.2
cat >"$folder/show" <<'S'
#!/bin/sh
for word; do printf '[%s]' "$word"; done
echo
S
chmod +x "$folder/show"
run() {
  printf '%s\n' "$1" | sed "s|PROGRAM|$folder/show|g" >"$folder/file"
  "$folder/venv/bin/mpiexec" -configfile "$folder/file" </dev/null | sort
}
[ "$(run '-n 1 PROGRAM "two words"')" = '["two][words"]' ] || { echo "quotes are read differently now"; exit 1; }
[ "$(run '-n 1 PROGRAM a : -n 1 PROGRAM b')" = "[a]
[b]" ] || { echo "a ':' in a line is read differently now"; exit 1; }
echo "as described"

# shellcheck shell=sh disable=SC2154 # compiler, prefix, program and modules_in_prefix are set by the wrapper
# SPDX-License-Identifier: BSD-3-Clause
# Sets `modules` to the folder with the compiler's modules. They are compiled on first use of a compiler, into the prefix or
# else the user's cache; those of a wheel into the cache only, since pip would leave them behind. The folder is named after the compiler's version and the sources, so that no other version of
# either reads them.
find_modules() {
  # shellcheck disable=SC2034 # used by the wrapper
  modules=
  sources=$prefix/share/weft/fortran
  cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  [ "$modules_in_prefix" = no ] && of_prefix= || of_prefix=$prefix/lib/weft/fortran
  # shellcheck disable=SC2086
  about=$($compiler --version 2>/dev/null) || about=
  title=$(printf '%s\n' "$about" | sed -n '/[^ ]/{p;q;}')
  if [ -z "$title" ]; then
    echo "$program: no Fortran modules: \`$compiler --version\` failed; mpif.h can be used" >&2
    return
  fi
  key=$(printf '%s' "$title" | tr -cs 'A-Za-z0-9._' '-' | cut -c1-80)
  key=$key-$({ printf '%s\n' "$about"; cat "$sources"/*.F90; } | cksum | cut -d' ' -f1)
  for folder in ${of_prefix:+"$of_prefix"} ${cache:+"$cache/weft/fortran"}; do
    modules=$folder/$key
    [ ! -e "$modules/mpi.mod" ] || return 0
  done
  for folder in ${of_prefix:+"$of_prefix"} ${cache:+"$cache/weft/fortran"}; do
    modules=
    mkdir -p "$folder" 2>/dev/null || continue
    new=$(mktemp -d "$folder/.new-XXXXXX" 2>/dev/null) || continue
    # shellcheck disable=SC2086
    if ! (cd "$new" && for source in "$sources"/*.F90; do $compiler -w -c "$source" || exit 1; done) >"$new/log" 2>&1; then
      echo "$program: no Fortran modules: $compiler cannot compile $sources; mpif.h can be used" >&2
      cat "$new/log" >&2
      rm -rf "$new"
      return
    fi
    rm -f "$new"/*.o "$new/log"
    printf '%s\n' "$title" >"$new/compiler"
    chmod 755 "$new"
    mv -T "$new" "$folder/$key" 2>/dev/null || rm -rf "$new" # another process was first
    modules=$folder/$key
    [ ! -e "$modules/mpi.mod" ] || return 0
  done
  echo "$program: no Fortran modules: cannot write ${of_prefix:+$of_prefix nor }${cache:-a cache (HOME is not set)}" >&2
}

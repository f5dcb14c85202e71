#!/usr/bin/env bash
# Runs a job on a cluster that has Spark but not Crosswind: packs this Python environment and sends it along.
#   deploy/spark-submit.sh --master yarn --cells 64 JOB.toml [options of spark-submit ...]
# Needs spark-submit on the PATH, and in the environment crosswind[spark] and venv-pack (pip install venv-pack). PySpark is
# not sent along: executors have that of the cluster, and another one beside it would be 490 MB for nothing, or in its way.
set -euo pipefail

master=yarn cells='' job='' more=()
while [ $# -gt 0 ]; do
    case $1 in
        --master) master=$2; shift 2 ;;
        --cells) cells=$2; shift 2 ;;
        *.toml) job=$1; shift ;;
        *) more+=("$1"); shift ;;
    esac
done
if [ -z "$job" ]; then
    echo "usage: deploy/spark-submit.sh [--master MASTER] [--cells N] JOB.toml [options of spark-submit ...]" >&2
    exit 2
fi
for program in spark-submit venv-pack crosswind; do
    command -v "$program" > /dev/null || {
        echo "spark-submit.sh: there is no $program on the PATH. Activate the environment that has it, or: pip install 'crosswind[spark]' venv-pack" >&2
        exit 1
    }
done
# A mistake in the job is found here, and not when the cluster has taken it.
crosswind check --engine spark "$job"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
archive=$(mktemp -d)/environment.tar.gz
trap 'rm -rf "$(dirname "$archive")" environment' EXIT
prefix=$(python -c 'import sys; print(sys.prefix)')
venv-pack --quiet --prefix "$prefix" --output "$archive" \
    --exclude '*/site-packages/pyspark/*' --exclude '*/site-packages/pyspark-*' --exclude '*/site-packages/py4j*' \
    --exclude 'bin/*spark*'
# Spark's driver starts Python too, under the name that it has on the executors: a link serves here.
if [ -e environment ]; then
    trap 'rm -rf "$(dirname "$archive")"' EXIT
    echo "spark-submit.sh: there is an 'environment' in $PWD, a name that is needed for the workers' Python; run this elsewhere" >&2
    exit 1
fi
ln -s "$prefix" environment

settings=$(python -c 'import sys; from crosswind.spark import settings
for pair in settings(int(sys.argv[1]) if sys.argv[1] else None).items(): print("=".join(pair))' "$cells")
conf=()
while IFS= read -r line; do conf+=(--conf "$line"); done <<< "$settings"
# The driver runs here, in client mode, with this environment; executors unpack theirs.
PYSPARK_DRIVER_PYTHON=$(command -v python) PYSPARK_PYTHON=./environment/bin/python \
    spark-submit --master "$master" --archives "$archive#environment" "${conf[@]}" "${more[@]}" "$here/submit.py" "$job"

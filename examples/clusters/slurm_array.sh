#!/bin/bash
# A job array without any cluster software: each job works through its share of the pairs into a folder of its
# own below the archive, and a last job makes one archive of them. Submit it with
#
#     PAIRS=pairs.csv ARCHIVE=archive bash slurm_array.sh submit 16 --partition=gpu --gpus=1 --time=12:00:00
#
# (16 jobs; the words behind the number go to sbatch). Submitting it again goes on where the jobs ended. Words
# for rscc, such as a model, go into RSCC_OPTIONS.
set -u

: "${PAIRS:?set PAIRS to the table of pairs}" "${ARCHIVE:?set ARCHIVE to the folder of the archive}"

case "${1:-work}" in
submit)
    jobs=${2:?how many jobs}
    shift 2
    export PAIRS ARCHIVE
    id=$(sbatch --parsable --job-name=rscc --array="1-$jobs" --requeue "$@" "$0" work) || exit
    # Merged once all have ended, however they ended; --kill-on-invalid-dep has no part in it.
    sbatch --job-name=rscc-merge --dependency="afterany:${id%%;*}" "$0" merge
    ;;
work)
    # Slurm's own numbers, so that a job knows its share; they start at 1, as --shard does.
    # shellcheck disable=SC2086  # several words are meant
    srun rscc batch "$PAIRS" --out "$ARCHIVE" \
        --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --quiet ${RSCC_OPTIONS:-}
    code=$?
    # 3: all pairs were tried and some failed, which rscc status tells; the job itself did what it should.
    [ "$code" -eq 3 ] && code=0
    exit "$code"
    ;;
merge)
    rscc merge "$ARCHIVE"
    ;;
*)
    echo "$0: submit, work or merge, not $1" >&2
    exit 2
    ;;
esac

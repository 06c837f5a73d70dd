#!/bin/bash
# Process a table of pairs as a Slurm job array. All jobs write into one archive; submitting again resumes it.
#
#     PAIRS=pairs.csv ARCHIVE=archive sbatch --array=1-16 --requeue --time=12:00:00 slurm_array.sh
#
# Further options of rscc batch go into RSCC_OPTIONS.
set -u

: "${PAIRS:?set PAIRS to the table of pairs}" "${ARCHIVE:?set ARCHIVE to the folder of the archive}"

# shellcheck disable=SC2086  # RSCC_OPTIONS holds several words
srun rscc batch "$PAIRS" --out "$ARCHIVE" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --quiet ${RSCC_OPTIONS:-}
code=$?
# 3: finished, but some pairs failed; that is no failure of the job.
[ "$code" -eq 3 ] && code=0
exit "$code"

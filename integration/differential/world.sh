#!/bin/bash
{ echo "## show"; scontrol show job -d -o "$SLURM_JOB_ID"; echo "## env"; env | grep -E '^(SLURM|SBATCH|CUDA|GPU|ROCR|ZE_)' | sort; } >"$1.job"
touch "$1.done"

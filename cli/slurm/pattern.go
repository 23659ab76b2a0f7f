package slurm

import "stint/events/filename"

// Names are what a file name pattern of --output, --error and --input may stand for.
type Names = filename.Names

// FileName fills in a pattern as a release does.
func FileName(pattern string, n Names, r Release) string {
	n.NoModulo = r < 2405
	return filename.Expand(pattern, n)
}

#include "textflag.h"

// func read(limit *[2]uint64) (failure uintptr): prlimit64(0, RLIMIT_NOFILE, nil, limit)
TEXT ·read(SB), NOSPLIT, $0-16
	MOVD $0, R0
	MOVD $7, R1
	MOVD $0, R2
	MOVD limit+0(FP), R3
	MOVD $261, R8
	SVC
	MOVD R0, failure+8(FP)
	RET

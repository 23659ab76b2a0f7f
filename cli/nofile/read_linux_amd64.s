#include "textflag.h"

// func read(limit *[2]uint64) (failure uintptr): prlimit64(0, RLIMIT_NOFILE, nil, limit)
TEXT ·read(SB), NOSPLIT, $0-16
	MOVQ $302, AX
	MOVQ $0, DI
	MOVQ $7, SI
	MOVQ $0, DX
	MOVQ limit+0(FP), R10
	SYSCALL
	MOVQ AX, failure+8(FP)
	RET

package main

// ofLease are mistakes about the right to serve (HANDOVER §4).
func ofLease() []mutant {
	return []mutant{
		{
			"gate and readiness do not look at the lease", "§4: what asks between two ticks is let in after the lease",
			"server/election_api.go",
			[]edit{{"case e.over():\n\t\treturn errLeaseOver", "case false:\n\t\treturn errLeaseOver"}},
			"./server",
			[]string{"TestSleepOfTheMachineIsFencedBeforeAnythingElse", "TestRestartContinuesUntilTheDeadline"},
		},
		{
			"lease counted from the answer", "§4: a slow read stretches the lease beyond W, two owners",
			"server/election_read.go",
			[]edit{{"r := reading{start: now(e.Clock)}\n\to, err := e.object.Read(ctx)", "o, err := e.object.Read(ctx)\n\tr := reading{start: now(e.Clock)}"}},
			"./server",
			[]string{"TestSlowReadsDoNotStretchTheLease"},
		},
		{
			"lease by the wall clock alone", "§4: a wall clock that is set back prolongs the lease",
			"server/lease.go",
			[]edit{{"max(n.Boot-i.Boot, n.Wall.Sub(i.Wall).Abs())", "n.Wall.Sub(i.Wall).Abs()"}},
			"./server",
			[]string{"TestLeaseIsOverByEitherClock"},
		},
		{
			"a wake-up is not fenced first", "§4: the first thing after a sleep is a read that renews what was over",
			"server/source_states.go",
			[]edit{{
				"func (e *Election) whileOwner(ev event) state {\n\tif e.over() {", "func (e *Election) whileOwner(ev event) state {\n\tif !ev.read && e.over() {",
			}},
			"./server",
			[]string{"TestReadAfterASleepDoesNotRenewWhatWasOver"},
		},
		{
			"lock released without a lease", "§8: etcd waits at the lock while the data dir is prepared, and serves beside the destination",
			"server/source_states.go",
			[]edit{{"if e.over() { // the machine may have slept while", "if false { // the machine may have slept while"}},
			"./server",
			[]string{"TestSleepWhileTheDataDirIsPreparedKeepsItLocked"},
		},
		{
			"lease survives a reboot", "§4: BOOTTIME begins anew, an old start is in the future",
			"server/election_run.go",
			[]edit{{"if e.memory.get().BootID != boot {", "if false && e.memory.get().BootID != boot {"}},
			"./server",
			[]string{"TestRebootVoidsTheLease"},
		},
		{
			"403 is absent", "§4, I9 and I1: a refused read renews the lease of a container that somebody has claimed",
			"syncobject/verdict.go",
			[]edit{{"case errors.Is(err, fs.ErrNotExist):", "case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):"}},
			"./syncobject",
			[]string{"TestVerdictsOfReads"},
		},
		{
			"403 of S3 is absent", "§4: the same mistake where the store's answer is understood",
			"store/s3/errors.go",
			[]edit{{"permissions[op], fs.ErrPermission", "permissions[op], fs.ErrNotExist"}},
			"./store/s3",
			[]string{"TestAnswers"},
		},
		{
			"watchdog believes in a passed gate", "§4: a wrapper that has passed the gate starts etcd after L, and nobody counts G",
			"server/election_api.go",
			[]edit{{"\t\tif alive {\n", "\t\tif false && alive {\n"}},
			"./server",
			[]string{"TestWatchdogSeesAGateThatHasPassed"},
		},
		{
			"watchdog is satisfied while frozen", "§4 and §6: a cluster that others have thawed serves for ever without a lease",
			"server/source_frozen.go",
			[]edit{{
				"return e.frozen && (!e.over() || e.refuses.since(e.Clock) <= e.Timing.Read+2*e.Timing.Tick)", "return e.frozen",
			}},
			"./server",
			[]string{"TestWatchdogDoesNotBelieveInAFrozenClusterForEver"},
		},
	}
}

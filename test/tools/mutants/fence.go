package main

// ofFence are mistakes about ending etcd, and keeping it ended (HANDOVER §5, §6).
func ofFence() []mutant {
	return []mutant{
		{
			"snapshot before the kill is confirmed", "§5, I2: etcd acknowledges writes that the final snapshot has not",
			"server/source_fence.go",
			[]edit{{"e.Metrics.fence(err)\n\t\tif err == nil {", "e.Metrics.fence(err)\n\t\tif true {"}},
			"./server",
			[]string{"TestFenceThatFailsIsNeverReady"},
		},
		{
			"lock is not kept", "§5: an etcd that is started by hand or by its container serves after the fence",
			"server/members_local.go",
			[]edit{{
				"before := m.lock\n\tm.lock, m.locked = lock, locked\n", "before := m.lock\n\tm.lock, m.locked = lock, locked\n\tdefer lock.Release()\n",
			}},
			"./server",
			[]string{"TestFenceKeepsItsLock"},
		},
		{
			"only etcd is ended", "§5: the wrapper between gate and etcd starts another one",
			"pkg/etcd/fence/fencer.go",
			[]edit{{"if gate.IsZero() {", "if true {"}},
			"./pkg/etcd/fence",
			[]string{"TestGate", "TestGateWithEtcd"},
		},
		{
			"WAL is not replayed", "§1: after SIGKILL the database lacks what was acknowledged last",
			"pkg/etcd/datadir/dir.go",
			[]edit{{"if len(log.missing) == 0 {", "if true {"}},
			"./pkg/etcd/datadir",
			[]string{"TestKill"},
		},
		{
			"the fence is not told who has passed the gate", "§5: what is between gate and etcd starts one after the fence",
			"server/source_fence.go",
			[]edit{{"e.member.Fence(ctx, e.passed())", "e.member.Fence(ctx, nil)"}},
			"./server",
			[]string{"TestFenceIsToldWhoHasPassedTheGate"},
		},
		{
			"a restart's fence is not told who has passed the gate", "§5: the same mistake after a crash",
			"server/election_run.go",
			[]edit{{"return e.member.Fence(ctx, p.Gates)", "return e.member.Fence(ctx, nil)"}},
			"./server",
			[]string{"TestFenceIsToldWhoHasPassedTheGate"},
		},
		{
			"whatever is fenced is let go", "§5: the lock is released with the hand-over, an etcd that is started by hand serves",
			"server/source_states.go",
			[]edit{{
				"e.enter(Ceded, cededTo(r))\n\t\tif next, fenced := e.fence(ctx, r.object); !fenced {\n\t\t\treturn next\n\t\t}\n",
				"e.enter(Ceded, cededTo(r))\n\t\tif next, fenced := e.fence(ctx, r.object); !fenced {\n\t\t\treturn next\n\t\t}\n\t\t_ = e.member.Unfence()\n",
			}},
			"./server",
			[]string{"TestHandOver"},
		},
		{
			"gate is not remembered", "§5: after a crash nobody knows the wrapper that was let pass",
			"server/election_api.go",
			[]edit{{"func(p *persisted) { p.Gates = gates }", "func(p *persisted) { _ = gates }"}},
			"./server",
			[]string{"TestGateIsRememberedBeforeItPasses"},
		},
		{
			"fence is not remembered", "§5: a sidecar that crashes while it hands over comes back without its lock",
			"server/source_fence.go",
			[]edit{{"func(p *persisted) { p.Fenced = true }", "func(p *persisted) {}"}},
			"./server",
			[]string{"TestCrashWithNothingButAStateDirIsFenced"},
		},
		{
			"a failed write is forgotten", "§5: the disk was full for a moment, and a restart knows neither fence nor gate",
			"server/state.go",
			[]edit{{"if bytes.Equal(before, data) && !m.torn {", "if bytes.Equal(before, data) {"}},
			"./server",
			[]string{"TestStateThatWasNotWrittenIsWrittenAgain"},
		},
		{
			"thaws what has begun since", "§6, I2: the cluster accepts writes after its final snapshot",
			"server/source_backup.go",
			[]edit{{"g := e.owned //", "g := e.memory.get().Generation //"}},
			"./server",
			[]string{"TestThawLeavesWhatHasBegunSince"},
		},
		{
			"thaws once", "§6, I8: a member frozen after an abort is frozen for ever",
			"server/source_backup.go",
			[]edit{
				{"known := false\n", "known, thawed := false, false\n"},
				{"if err == nil {\n\t\t\te.thaw(b.ctx)\n", "if err == nil && !thawed {\n\t\t\tthawed = true\n\t\t\te.thaw(b.ctx)\n"},
			},
			"./server",
			[]string{"TestOthersThawWhatTheyHaveNotFrozen"},
		},
		{
			"a frozen member takes its time", "§6: it answers reads for a whole poll period after the decision",
			"server/election_run.go",
			[]edit{{"e.askNow() // and soon again, see pause", ""}},
			"./server",
			[]string{"TestFrozenMemberSeesTheDecisionSoon"},
		},
		{
			"frozen by NOSPACE", "§6: deletes go through the fence",
			"pkg/etcd/raftfence.go",
			[]edit{{"etcdserverpb.AlarmType_CORRUPT", "etcdserverpb.AlarmType_NOSPACE"}},
			"./pkg/etcd",
			[]string{"TestRaftFence"},
		},
	}
}

package main

// ofStored are mistakes about what is stored (docs/format.md).
func ofStored() []mutant {
	return []mutant{
		{
			"manifest before its object", "a snapshot counts that a crash leaves without bytes",
			"pkg/archive/save.go",
			[]edit{{
				"m = b.packed().describe(named(m, b.encrypted))\n", "m = b.packed().describe(named(m, b.encrypted))\n\tif m, err := a.seal(ctx, m); err != nil {\n\t\treturn m, err\n\t}\n",
			}},
			"./pkg/archive",
			[]string{"TestSaveLooksAtWhatWasStored"},
		},
		{
			"digests are not compared", "damage reaches an etcd",
			"pkg/archive/open.go",
			[]edit{{"case v.digest.SHA256() != v.sha256:", "case false:"}},
			"./pkg/archive",
			[]string{"TestSaveLooksAtWhatWasStored", "TestPutOpenedLooksAtWhatWasStored"},
		},
		{
			"what was stored is not read back", "a store that has swallowed bytes is noticed at the restore",
			"pkg/archive/save.go",
			[]edit{{"r, err := a.OpenStored(ctx, m)\n\tif err == nil {", "r, err := a.OpenStored(ctx, m)\n\tif false {"}},
			"./pkg/archive",
			[]string{"TestSaveLooksAtWhatWasStored"},
		},
		{
			"pruning removes a final", "I5: what a hand-over names is gone before the destination has it",
			"pkg/snapshot/retention.go",
			[]edit{{"case m.Final:", "case false:"}},
			"./pkg/snapshot",
			[]string{"TestPolicyNeverTouches"},
		},
		{
			"pruning begins at the wrong end", "a pruning that is interrupted leaves deltas without their full",
			"pkg/snapshot/policy.go",
			[]edit{{"ordered = append(append(ordered, deltas[:n]...), full)", "ordered = append(append(ordered, full), deltas[:n]...)"}},
			"./pkg/snapshot",
			[]string{"TestExpiredOrder"},
		},
		{
			"restore keeps the fence", "§6: the alarm of the hand-over is in the snapshot, the destination refuses writes",
			"restorer/database.go",
			[]edit{{"if alarm.MemberID>>56 == reservedAlarm {", "if false {"}},
			"./restorer",
			[]string{"TestReservedAlarms"},
		},
		{
			"restore strips every alarm", "§6: a real alarm of the source is lost",
			"restorer/database.go",
			[]edit{{"if alarm.MemberID>>56 == reservedAlarm {", "if true {"}},
			"./restorer",
			[]string{"TestReservedAlarms"},
		},
	}
}

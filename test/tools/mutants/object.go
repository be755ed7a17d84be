package main

// ofObject are mistakes about the steps of the sync object (HANDOVER §7, §8).
func ofObject() []mutant {
	return []mutant{
		{
			"swap without condition", "§7, I4: whoever writes last has decided",
			"store/mem/mem.go",
			[]edit{{"if s.objects[name].info.Version != old {", "if false {"}},
			"./syncobject",
			[]string{"TestTwoWriters", "TestClaimsOfMany", "TestPublishAgainstForce"},
		},
		{
			"swap of S3 without condition", "§7, I4: the same mistake where the request is made",
			"store/s3/store.go",
			[]edit{{"in.IfMatch = etagOf(w.Old)", "_ = etagOf(w.Old)"}},
			"./store/s3",
			[]string{"TestServers"},
		},
		{
			"one's own write is not recognised", "§7: a swap that has won with its answer lost is taken for another's",
			"syncobject/update.go",
			[]edit{{"case u.ids[now.writeID()]:", "case false:"}},
			"./syncobject",
			[]string{"TestLostAnswers"},
		},
		{
			"ambiguous is a plain failure", "§7: the caller takes a write for undone that may have happened",
			"syncobject/update.go",
			[]edit{{"if err != nil && u.open {", "if false {"}},
			"./syncobject",
			[]string{"TestUpdateEnds", "TestLateSwap", "TestLostAnswers"},
		},
		{
			"absent again is owned", "§7: somebody has deleted the object, both ends are owners",
			"syncobject/verdict.go",
			[]edit{{"case o == nil && seen == 0:", "case o == nil:"}},
			"./syncobject",
			[]string{"TestVerdictsWithoutObject"},
		},
		{
			"Ready without a fence", "§5, I2: published by a source that has not said that it is fenced",
			"syncobject/source.go",
			[]edit{{"case !o.Source.Phase.Closed():", "case false:"}},
			"./syncobject",
			[]string{"TestEveryStepInEveryState"},
		},
		{
			"abort after the decision", "I4: the source serves again beside a destination that copies",
			"syncobject/resolve.go",
			[]edit{{
				"case o.Status != Initial:\n\t\treturn o, o.refuse(step, ErrDecided, o.Destination.ID, \"\")",
				"case false:\n\t\treturn o, o.refuse(step, ErrDecided, o.Destination.ID, \"\")",
			}},
			"./syncobject",
			[]string{"TestEveryStepInEveryState"},
		},
		{
			"reclaim after the commit", "I4, I1: both are owners",
			"syncobject/resolve.go",
			[]edit{{"case o.Status == Done:\n\t\treturn o, o.refuse(step, ErrDecided, o.Owner.ID,", "case false:\n\t\treturn o, o.refuse(step, ErrDecided, o.Owner.ID,"}},
			"./syncobject",
			[]string{"TestEveryStepInEveryState", "TestReclaimAgainstCommit"},
		},
		{
			"force although it is decided", "I4: the destination's lossy set replaces the source's complete one",
			"syncobject/destination.go",
			[]edit{{
				"case o.Status != Initial:\n\t\treturn o, o.refuse(step, ErrDecided, o.Owner.ID, \"by the source\")",
				"case false:\n\t\treturn o, o.refuse(step, ErrDecided, o.Owner.ID, \"by the source\")",
			}},
			"./syncobject",
			[]string{"TestPublishAgainstForce"},
		},
		{
			"force although FenceFailed", "§5, I1: the source has said that its etcd serves on",
			"syncobject/destination.go",
			[]edit{{"if o.Status == Initial && o.Source.Phase == FenceFailed && !f.Unfenced {", "if false {"}},
			"./syncobject",
			[]string{"TestEveryStepInEveryState"},
		},
		{
			"forced is not lossy", "I3: nobody is told what may be lost",
			"syncobject/destination.go",
			[]edit{{"Forced: true, Lossy: true,", "Forced: true,"}},
			"./syncobject",
			[]string{"TestDecisions"},
		},
		{
			"FenceFailed is taken back", "§5: another member's report hides an etcd that serves on",
			"syncobject/source.go",
			[]edit{{`r.Phase != "" && (r.Phase != Fencing || s.Phase != FenceFailed)`, `r.Phase != ""`}},
			"./syncobject",
			[]string{"TestFenceThatFailedIsNotTakenBackByAnotherMember"},
		},
	}
}

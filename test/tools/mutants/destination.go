package main

// ofDestination are mistakes about adopting what is handed over (HANDOVER §8, I5).
func ofDestination() []mutant {
	return []mutant{
		{
			"epoch need not be above", "§7, I1: a copy that was paused takes back a container that was handed on",
			"syncobject/destination.go",
			[]edit{{"case owner.Epoch <= o.Owner.Epoch:", "case false:"}},
			"./syncobject",
			[]string{"TestAdoptAgainWhileAnotherHandOverIsWanted", "TestOwnersAndEpochs"},
		},
		{
			"adopted after Done", "§8, I5: a crash after the commit leaves nothing to serve",
			"copier/handover_commit.go",
			[]edit{
				{"ad, err = r.to.Archive.PrepareAdoption(ctx, wanted)", "ad = wanted"},
				{"\t\t{\"adopt\", func(ctx", "\t\t{\"prepare\", func(ctx context.Context) error {\n\t\t\t_, err := r.to.Archive.PrepareAdoption(ctx, ad)\n\t\t\treturn err\n\t\t}},\n\t\t{\"adopt\", func(ctx"},
			},
			"./copier",
			[]string{"TestCrashAtEveryWrite"},
		},
		{
			"open adoption is no hindrance", "§8, I1 and I5: a server begins from a copy that may still be reclaimed",
			"pkg/archive/adoption.go",
			[]edit{{"if s.Outcome == AdoptionOpen {", "if false {"}},
			"./pkg/archive",
			[]string{"TestAdoptionGoesFromBegunToCommitted", "TestCurrentAdoptionIsTheNewestCommitted"},
		},
		{
			"copies of before are trusted", "§8: what an earlier copy brought is not read before it is adopted",
			"copier/handover_copy.go",
			[]edit{{"if how == deep {", "if false {"}},
			"./copier",
			[]string{"TestDamagedCopyIsMadeAgain", "TestDamagedSetIsNeverCommitted"},
		},
		{
			"what is dead is not withdrawn", "§8, I8: an adoption that was taken back keeps the next one's server out",
			"copier/handover_past.go",
			[]edit{{"s.Outcome != archive.AdoptionOpen || !r.dead(s, o)", "true"}},
			"./copier",
			[]string{"TestTakenBackWhileAway"},
		},
		{
			"the newest is copied", "I5: what is copied is not what is named",
			"copier/handover_copy.go",
			[]edit{{
				"named, err := r.from.Archive.PinnedChain(ctx, pins)\n",
				"named, err := r.from.Archive.PinnedChain(ctx, pins)\n\tif l, e := r.from.Archive.List(ctx); e == nil {\n\t\tif all, _ := snapshot.Chains(l.Manifests); len(all) > 0 {\n\t\t\tnamed = all[len(all)-1]\n\t\t}\n\t}\n",
			}},
			"./copier",
			[]string{"TestNewerThanWhatIsNamed"},
		},
		{
			"what is being handed over is claimed", "§8, I8: its new owner is kept out, and nobody serves",
			"copier/handover_past.go",
			[]edit{{"if _, err := adoptions.Current(); errors.Is(err, archive.ErrAdopting) {", "if _, err := adoptions.Current(); false && errors.Is(err, archive.ErrAdopting) {"}},
			"./copier",
			[]string{"TestClaimOfWhatIsBeingHandedOver"},
		},
		{
			"begins in a container that was just claimed", "§8, I8: the other one of the two does not look either",
			"copier/handover_past.go",
			[]edit{{"if err == nil && own.Pending() && own.Status != syncobject.Done {", "if false {"}},
			"./copier",
			[]string{"TestOwnContainerIsClaimedMeanwhile"},
		},
		{
			"the wait is read as rarely as all else", "§8: nobody serves for half a poll period more",
			"copier/handover_wait.go",
			[]edit{{"return min(max(r.waited(), r.Poll)/10, r.Poll)", "return r.Poll"}},
			"./copier",
			[]string{"TestDecisionIsSeenSoon"},
		},
		{
			"paused copy settles again", "§8, I1: a run that was overtaken goes on after the commit of another",
			"copier/handover_commit.go",
			[]edit{{"if !mine { //", "if false && !mine { //"}},
			"./copier",
			[]string{"TestPausedRunDoesNotTakeTheContainerBack"},
		},
	}
}

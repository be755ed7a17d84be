package main

// ofOwner are mistakes about owner.json and the times in it (HANDOVER §4, §8).
func ofOwner() []mutant {
	return []mutant{
		{
			"Released is not revoked", "§8, I2: a late Release says that a serving owner has stopped",
			"syncobject/owner.go",
			[]edit{{"|| o.Instance != me.Instance {", "{"}},
			"./syncobject",
			[]string{"TestOwnerSteps"},
		},
		{
			"Held after the first read", "§8, I2: a destination that claims in between reads Released, and the owner serves on",
			"server/election_read.go",
			[]edit{
				{"if err := e.hold(ctx); err != nil {\n\t\treturn reading{err: err}\n\t}\n", ""},
				{"o, err := e.object.Read(ctx)\n", "o, err := e.object.Read(ctx)\n\tif err := e.hold(ctx); err != nil {\n\t\treturn reading{err: err}\n\t}\n"},
			},
			"./server",
			[]string{"TestOwnerHoldsBeforeItReads"},
		},
		{
			"the store is not probed", "§9: a store without conditions is taken for one that has them",
			"server/election_run.go",
			[]edit{{"if e.proven {\n", "if true {\n"}},
			"./server",
			[]string{"TestStoreWithoutConditionsIsRefused"},
		},
		{
			"inequality is not checked", "§4, I1: a W is accepted that ends before the source does",
			"syncobject/timing.go",
			[]edit{{"return t.left(w) > t.right()", "return w > 0"}},
			"./syncobject",
			[]string{"TestTimingIsStrict"},
		},
		{
			"bound without the watchdog", "§4, I1: a paused sidecar's etcd serves until G",
			"syncobject/timing.go",
			[]edit{{"max(t.Kill, t.Watchdog).Seconds()", "t.Kill.Seconds()"}},
			"./syncobject",
			[]string{"TestTimingOfTheDefaults", "TestTimingIsStrict"},
		},
		{
			"clocks are exact", "§4, I1: ρ is left out of the bound",
			"syncobject/timing.go",
			[]edit{{".Seconds())*(1+t.ClockError)", ".Seconds())*1"}},
			"./syncobject",
			[]string{"TestTimingIsStrict", "TestTimingErrorHasTheNumbers"},
		},
		{
			"W counted from before the claim", "§4, I1: a slow claim shortens the wait",
			"copier/handover_claim.go",
			[]edit{
				{"\terr := r.persist(ctx, \"claim\"", "\tbegan := r.Boot()\n\terr := r.persist(ctx, \"claim\""},
				{"r.began = r.Boot() //", "r.began = began //"},
			},
			"./copier",
			[]string{"TestSlowClaimDoesNotShortenTheWait"},
		},
		{
			"a raised lease is not noticed", "§4, I1: the source has raised L since the destination has claimed",
			"copier/handover_wait.go",
			[]edit{{"case unsafe != nil && !r.gaveUp()", "case false && unsafe != nil && !r.gaveUp()"}},
			"./copier",
			[]string{"TestSourceRaisesItsLeaseMeanwhile"},
		},
		{
			"one member speaks for all", "§6, I1: the source gives up with one member fenced, the others serve",
			"copier/handover_wait.go",
			[]edit{{"len(s.FencedMembers) >= s.Members", "len(s.FencedMembers) > 0"}},
			"./copier",
			[]string{"TestSourceGivesUp"},
		},
	}
}

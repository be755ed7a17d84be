package main

// ofFinal are mistakes about the final snapshot (HANDOVER §8, I2).
func ofFinal() []mutant {
	return []mutant{
		{
			"data of another history is handed over", "I2, I6: an old disk becomes the complete set",
			"server/source_final.go",
			[]edit{{"return e.Check(ctx, holder, p.Lineage)", "return nil"}},
			"./server",
			[]string{"TestDataOfAnotherHistoryIsNotHandedOver"},
		},
		{
			"thawed before it was published", "I2: somebody has disarmed the alarm while the final was uploaded",
			"server/source_final.go",
			[]edit{{
				"if err := e.sealed(ctx, op, final); err != nil {", "if err := e.sealed(ctx, op, final); false && err != nil {",
			}},
			"./server",
			[]string{"TestThawedBeforePublishingIsFrozenAndStoredAgain"},
		},
		{
			"final of another content is taken", "I2: an operation of a used name names the snapshot of the first one",
			"server/source_file.go",
			[]edit{{
				"m.OperationID == f.operation.OperationID &&\n\t\t\tm.ClusterID == c.ClusterID && m.Last == c.Last && m.AuthRevision == c.AuthRevision",
				"m.OperationID == f.operation.OperationID",
			}},
			"./server",
			[]string{"TestOperationOfAUsedName"},
		},
		{
			"what came too late is not filed", "I3: what a force has left on the source's disk is lost with the disk",
			"server/source_file.go",
			[]edit{{"if o == nil || !o.Decision.Forced ||", "if true || !o.Decision.Forced ||"}},
			"./server",
			[]string{"TestLostToAForceIsFiledUnderLate", "TestSourceThatReturnsAfterAForceFilesLate"},
		},
		{
			"another history covers the rest", "I2: a clean stop says Released without what it has acknowledged",
			"server/source_release.go",
			[]edit{{"if chain.Full.Lineage != lineage {", "if false {"}},
			"./server",
			[]string{"TestOnlyTheOwnHistoryCovers"},
		},
	}
}

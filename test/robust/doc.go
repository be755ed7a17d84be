// Package robust breaks things while real etcds are written to, and then looks
// whether anything was lost: the sidecar is killed at random moments, the store
// fails, etcd restarts. What must hold is checked after every blow, and at the
// end a restore must have the hash of the etcd it came from.
//
// # What a hand-over must survive
//
// The rows, and the tests of them. Those without a folder are in
// test/robust/rows: real processes, with clients that write, read and watch all
// the time. What they were told has to be the history of one etcd (test/history).
//
//	 1 initiated while idle          TestRow01InitiateIdle
//	 2 writers on old connections    TestRow02And03WritersThatIgnoreReadiness
//	 3 writers that dial anew        TestRow02And03WritersThatIgnoreReadiness
//	 4 etcd is restarted at once     TestRow04RestartedEtcdWaitsInTheGate, TestEtcdStartedByHand
//	 5 wrapper behind the gate       TestRow05WrapperBetweenGateAndEtcd
//	 6 etcd deaf to SIGTERM          TestRow06DeafEtcd
//	 7 fifty initiates               TestRow07ManyInitiates
//	 8 who may initiate              TestRow08WhoMayInitiate; server: TestWhoMayChangeSomething
//	 9 status at every phase         TestRow09Status; server: TestCopyopOverHTTP
//	10 bare GEP-7 object             TestRow10BareObject; server: TestBareObjectIsAHandOver
//	11 upload longer than W          TestRow11UploadLongerThanW; copier: TestHeartbeatsProlongTheWait
//	12 Ready against a force         syncobject: TestPublishAgainstForce; copier: TestForceRacingWithReady; 1,000 seeds each
//	13 lost answers                  syncobject, server: TestLostAnswers
//	14 409, 412, 404                 syncobject: TestUpdateAfterSomebodyElse, TestUpdateOfAVanishedObject
//	15 two destinations              TestRow15TwoDestinations; copier: TestTwoDestinationsAtOnce
//	16 abort                         TestRow16Abort; server: TestAbortWhileFenced
//	17 reclaim against commit        TestRow17ReclaimBeforeCommit, TestRow17ReclaimAfterCommit;
//	                                 syncobject: TestReclaimAgainstCommit; copier: TestReclaimRacingWithCommit
//	18 unfit and locked stores       TestRow18UnfitStores; store: TestProbeOfUnfitStores, TestProbeOfALockedStore
//	19 source cut off                TestRow19CutForLessThanALease, TestRow19CutForLongerThanALease
//	20 forced                        TestRow20And21ForcedAndBack
//	21 back after the force          TestRow20And21ForcedAndBack; server: TestSourceThatReturnsAfterAForceFilesLate
//	22 back before W                 TestRow22SourceReturnsBeforeW
//	23 W below the bound             TestRow23WBelowTheBound; copier: TestWaitBelowTheBound
//	24 clocks                        sim: TestClocksAndSleep, TestSeeds; server: TestLeaseIsOverByEitherClock
//	25 the machine sleeps            sim: TestClocksAndSleep, TestSeeds; server: TestSleepOfTheMachineIsFencedBeforeAnythingElse
//	26 slow reads                    server: TestSlowReadsDoNotStretchTheLease
//	27 what is no absence            TestRow27NeverAbsent; server: TestWhatIsNoAbsenceRenewsNothing
//	28 a store in a storm            TestRow28Storm; test/robust: TestThrottledStoreIsLeftAlone; store: TestRetryJitter
//	29 sidecar killed at each point  TestRow29SidecarKilledAtEachPoint, TestRow29SidecarsOfAClusterKilled;
//	                                 server: TestCrashAtEachCall
//	30 ... while the store is down   TestRow30SidecarKilledWhileTheStoreIsDown; server: TestRestartContinuesUntilTheDeadline
//	31 reboot                        server: TestRebootVoidsTheLease
//	32 destination killed            TestRow32CopyKilledAtEachPoint, TestRow32ForcedDestinationAndItsSourceKilled,
//	                                 TestRow32CopyKilledAnywhere, TestSidecarKilledWhileItRestores;
//	                                 copier: TestCrashAtEveryWrite
//	33 disk full, upload cut         TestRow33DiskFullAtTheSource, TestRow33DiskFullAtTheDestination,
//	                                 TestRow33DiskFullForABackup, TestRow33DiskFullForARestore,
//	                                 TestRow33UploadCutInTheMiddle; test/robust: TestUploadsOverBadLines
//	34 killed while it backs up      TestRow34SidecarKilledAtEachPoint, TestRestoreKilledAtEachPoint;
//	                                 test/robust: TestSidecarKilledAnywhere
//	35 three members                 TestRow35ThreeMembers, TestNothingIsLost; server: TestHandOverOfARealCluster
//	36 the leader is lost            TestRow36LeaderLost; server: TestOthersWaitForTheLeader
//	37 members are dead              TestRow37OneMemberDead, TestRow37TwoMembersDead; server: TestWithoutQuorumThereIsNoFinalSnapshot
//	38 hibernated, woken             TestRow38Hibernated, TestRow38WakeUpAgainstTakeOver
//	39 pruning during a copy         TestRow39PruningDuringACopy
//	40 back and forth                TestRow40BackAndForth; copier, syncobject: TestBackAndForth
//	41 damaged copies                copier: TestDamagedCopyIsMadeAgain, TestDamagedSetIsNeverCommitted
//	42 any history                   test/robust: TestWholeHistoryComesBack; restorer: TestRestoredEtcdEqualsSource;
//	                                 snapshotter: TestRevisionsLargerThanAMessage, TestFullAfterCompaction
//	43 versions of etcd              TestNothingIsLost; restorer: TestPlanVersions
//	44 names from outside            test/e2e: TestForeignNames; store/cloud: TestForeignNamesAreIgnoredAndCounted
//	45 secrets                       test/e2e: TestCanary, TestCanaryOfAHandOver
//	46 others named etcd             TestRow46OthersNamedEtcd; pkg/etcd/fence: TestNotOurs, TestReusedID, TestOtherUser
//	47 rotation under load           test/robust: TestRow47Rotation; server/web: TestBadFilesLeaveTheLastGoodOnesInUse,
//	                                 TestWhoIsNoLongerTrustedLosesItsConnectionsRights; store/s3: TestCredentialsMoveToAnotherServer
//	48 10,000 callers, a gigabyte    test/robust: TestRow48Crowd; server/web: TestCrowd, TestSlowCallersAreCutOff
//
// The watchdog of a sidecar that stands still is TestWatchdog. The points at which
// processes are killed are listed in pkg/crashpoint.
//
// # Bad lines
//
// Each line of each process is made bad (Toxiproxy) by
//
//	sidecar to store          TestHandOverOverBadLines, and rows 11, 16, 19 to 22, 30
//	sidecar to etcd           TestLineBetweenSidecarAndEtcd
//	copy to the source store  TestHandOverOverBadLines, row 17; test/robust: TestCopiesOverBadLines
//	copy to its own store     the same
//	commands to store         TestCommandsOverBadLines
//	uploads, every provider   test/robust: TestUploadsOverBadLines
package robust

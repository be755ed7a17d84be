// Package crashpoint names the points of this program's own code at which tests
// end it with SIGKILL: between two steps of which the second must find out what
// became of the first.
//
// In a build with the tag crashpoints, a process that comes to a point dies there
// if the folder that the environment variable Variable names holds a file of the
// point's name. The file is removed right before. So a test arms a point whenever
// it likes, sees that the process got there, and what is started again passes. In
// every other build Here is empty and inlined: nothing of this is in the program,
// which TestNothingOfItIsReleased looks at.
//
// That each point is passed by one line of the code, and is driven by a test with
// real processes, is looked at by TestEveryPointIsPassedAndDriven, both in
// test/robust/rows.
//
// go.etcd.io/gofail was the alternative: its points are comments that a
// preprocessor turns into code before the build and back afterwards, in the work
// tree, and of its terms none ends a process without running what is left of it.
package crashpoint

// Package model holds the hand-over as a model in Promela, and searches it with
// Spin for every state it can be in within stated bounds: README.md says which, what
// is abstracted, and what is left out. Each mutant of the model, a known mistake,
// must break the property that it is known to break; a mutant that passes fails the
// test, as does a search that was not complete.
//
//	make model      installs spin on Debian, and prints the table of README.md
//
// Spin 6.5 and a C compiler are needed; without them the tests fail. What they make
// is in temporary folders.
//
// Not promised: anything about the code. That the model is of what runs is for its
// readers to see; test/robust holds the code itself to the same invariants.
package model

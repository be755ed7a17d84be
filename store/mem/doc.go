// Package mem is a store in memory: the reference for what the port means, and
// the store of tests, which run in virtual time with it.
//
// It promises everything the port does except durability, and more: a version
// never returns. One lock guards everything; a Create reads its source before
// it takes the lock, and holds all of it in memory.
package mem

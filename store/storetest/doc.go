// Package storetest is the one test suite that every provider and wrapper of
// package store passes, and a store that fails on purpose.
//
// The suite checks what the port promises as far as that can be seen from
// outside: naming, listing, all-or-nothing creation, exactly one winner of each
// race, and the classes of errors. It does not check durability, crashes or the
// provider's own failures; those are the provider's tests.
package storetest

// Command etcd-ferry backs up etcd as it runs, and brings it back byte for byte.
//
// # How a command line becomes work
//
// Every command is an action: it declares flags, checks them, and runs. Between
// the first two, configure fills in what is not on the command line, from the
// environment and the config file. Complaints up to that point are collected and
// come all at once, with exit code 2; nothing was done. Errors after it are the
// work's, and the table in exit.go turns them into exit codes.
//
// Results go to standard output in the format of --output; a result is a value
// whose JSON is for machines and whose method table is for people. Logs, progress
// and errors go to standard error.
//
// This package alone knows the store providers, and it does no work of its own,
// except for the demo.
//
// Not promised: the tables and the texts of errors, which change when there are
// better ones. Flags, exit codes and JSON are for scripts.
package main

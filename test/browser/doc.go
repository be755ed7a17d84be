// Package browser looks at the status page as people do: in Chromium, in the dark and
// by day, on a phone, by keyboard, through what a screen reader is told, and without
// JavaScript.
//
// The screenshots are artifacts of the tests; to keep them:
//
//	go test -artifacts -outputdir DIR ./test/browser
//
// Chromium comes with "make browser". A test without it fails; it is never skipped.
package browser

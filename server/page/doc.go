// Package page draws the status page: one HTML document that needs nothing else, for
// whoever is woken at three and has a browser.
//
// Everything is in the document as it is served. The one script only asks for it
// again every few seconds and puts the new content in the place of the old; without
// it there is a link that does the same. The Content-Security-Policy lets nothing
// run or load but the style and the script that are in it, by their hashes.
//
// What the page says is made of plain values: a State is put together by whoever
// answers, from what it knows without asking anybody for long.
package page

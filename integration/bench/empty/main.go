// Command empty does nothing: what it costs to start is the floor of every command that is written in Go.
package main

func main() {}

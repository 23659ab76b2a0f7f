// Package once has tables that are made when somebody first looks at them. A command uses a few of the tables that its program
// holds; what is made as the program starts is paid for by each command, and a shell loop starts a thousand of them.
package once

import "sync"

// Value is a value that Make makes when it is first asked for. A package variable of this type whose Make is a function literal costs
// nothing as the program starts: the linker writes it down.
type Value[T any] struct {
	Make  func() T
	made  sync.Once
	value T
}

// Get is the value, the same one for everybody. It may be called by many at once.
func (v *Value[T]) Get() T {
	v.made.Do(func() { v.value, v.Make = v.Make(), nil })
	return v.value
}

// Package plain is what the plain structs that events/plain.pl makes of schemas have in common.
package plain

import (
	"fmt"
	"reflect"
	"strings"
)

// Text is a message for people who look for faults, in a line: the fields that are set, called and written as in protobuf's own text format.
// m is a pointer to a struct, or nil.
func Text(m any) string {
	v := reflect.ValueOf(m)
	if v.IsNil() {
		return "<nil>"
	}
	var b strings.Builder
	message(&b, v.Elem())
	return b.String()
}

func message(b *strings.Builder, v reflect.Value) {
	begun := b.Len()
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if !f.IsExported() || value.IsZero() {
			continue
		}
		if value.Kind() == reflect.Interface { // one of several: a struct with one field, which is told whatever it is
			value = value.Elem().Elem()
			f, value = value.Type().Field(0), value.Field(0)
		}
		values := []reflect.Value{value}
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() != reflect.Uint8 {
			values = values[:0]
			for n := range value.Len() {
				values = append(values, value.Index(n))
			}
		}
		for _, one := range values {
			if b.Len() > begun {
				b.WriteByte(' ')
			}
			b.WriteString(name(f))
			b.WriteByte(':')
			write(b, one)
		}
	}
}

// name is what the schema calls a field.
func name(f reflect.StructField) string {
	_, after, _ := strings.Cut(f.Tag.Get("protobuf"), "name=")
	name, _, _ := strings.Cut(after, ",")
	return name
}

func write(b *strings.Builder, v reflect.Value) {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() != reflect.Struct {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Pointer:
		b.WriteByte('{')
		if !v.IsNil() {
			message(b, v.Elem())
		}
		b.WriteByte('}')
	case reflect.String, reflect.Slice:
		fmt.Fprintf(b, "%q", v.Interface())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

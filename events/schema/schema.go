// Package schema looks at messages by their schema: field by field, or as JSON. It is linked with protobuf's runtime, which the messages
// themselves are not (events/plain.pl): what a user calls has nothing to do with it. Values of a schema that another one imports have names
// once a message of the imported one has been looked at.
package schema

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"
)

// Message is a message of any schema.
type Message = protoiface.MessageV1

// Of is the message as its schema has it. What is set through it is set in the message.
func Of(m Message) protoreflect.Message { return protoadapt.MessageV2Of(m).ProtoReflect() }

// Plain is the message that is looked at.
func Plain(m protoreflect.Message) Message { return protoadapt.MessageV1Of(m.Interface()) }

// JSON is a message as JSON, its fields called as in the schema. Blanks stand in it by chance of the build.
func JSON(m Message) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(protoadapt.MessageV2Of(m))
}

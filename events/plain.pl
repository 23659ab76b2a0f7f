# Makes plain structs of what protoc-gen-go and protoc-gen-go-vtproto write: a program that is linked with the schemas is not linked with
# protobuf's runtime by them, whose start each command would wait for, and whose notes each message would have room for. Codecs are
# vtproto's. Whoever looks at messages by their schema asks package events/schema, which finds it by Descriptor, EnumDescriptor and
# XXX_OneofWrappers, as messages had them before protobuf's second interface for Go. Maps of the names of values are there only where the
# sources use them.
use strict;
use IO::Compress::Gzip qw(gzip $GzipError);
undef $/;
my %used = map { $_ => 1 } split /\s+/, `git grep -hoE '\\b[A-Z][A-Za-z0-9]*_(name|value)\\b' -- '*.go' ':!*.pb.go'`;
my %escaped = (a => "\a", b => "\b", f => "\f", n => "\n", r => "\r", t => "\t", v => "\x0b");

# bytes_of is what a literal of Go's stands for.
sub bytes_of {
    my $bytes = '';
    for my $line ($_[0] =~ /"((?:[^"\\]|\\.)*)"/g) {
        $line =~ s/\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/
            if (defined $1) { chr hex $1 } elsif (defined($2 \/\/ $3)) { my $c = chr hex($2 \/\/ $3); utf8::encode($c); $c } else { $escaped{$4} \/\/ $4 }/gex;
        $bytes .= $line;
    }
    return $bytes;
}

for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!";
    my $text = <$in>;
    close $in;
    next unless $text =~ /protoimpl/; # plain already

    $text =~ s/^const \(\n\t\/\/ Verify that this generated code.*?^\)\n\n//ms;
    $text =~ s/^\t\w+ "(?:google\.golang\.org\/protobuf\/[^"]*|reflect|sync|unsafe)"\n//mg;
    $text =~ s/^func \(\w+ \*\w+\) (?:Clone|Equal)MessageVT\([^\n]*\n.*?^\}\n\n?//msg;

    if (my ($name) = $text =~ /^var File_(\w+) protoreflect/m) {
        my %names;
        while ($text =~ /^\t(\w+)_name += map\[int32\]string\{\n(.*?)^\t\}\n/msg) {
            my ($enum, $list) = ($1, $2);
            $names{$enum} = join '', map { /(-?\d+): +("\w+")/ ? "\tcase $1:\n\t\treturn $2\n" : () } split /\n/, $list;
        }
        $text =~ s/^\t(\w+_(?:name|value)) +?= map\[\w+\]\w+\{\n.*?^\t\}\n/$used{$1} ? $& : ''/msge;
        $text =~ s/^\/\/ Enum value maps for \w+\.\nvar \(\n\)\n\n//mg;
        $text =~ s/^(func \(x (\w+)\) String\(\) string \{\n)\treturn protoimpl\.X\.EnumStringOf[^\n]*\n/$1\tswitch x {\n$names{$2}\t}\n\treturn strconv.Itoa(int(x))\n/mg;
        $text =~ s/^func \((?:x )?\w+\) (?:Descriptor\(\) protoreflect|Type\(\)|Number\(\))[^\n]*\{\n.*?^\}\n\n//msg;

        my %message; # by its place in the schema
        $message{$2} = $1 while $text =~ /^func \(x \*(\w+)\) ProtoReflect\(\)[^\n]*\{\n\tmi := &file_${name}_msgTypes\[(\d+)\]/mg;
        $text =~ s/^func \(x \*\w+\) ProtoReflect\(\)[^\n]*\{\n.*?^\}\n\n//msg;
        $text =~ s/^(func \(x \*(\w+)\) Reset\(\) \{\n).*?^\}/$1\t*x = $2\{\}\n}/msg;
        $text =~ s/protoimpl\.X\.MessageStringOf\(x\)/plaintext.Text(x)/g;
        $text =~ s/^\t(?:state|sizeCache) +protoimpl\.[^\n]*\n//mg;
        $text =~ s/protoimpl\.UnknownFields/[]byte/g;
        $text =~ s/^\/\/ Deprecated: Use \w+\.(?:ProtoReflect\.)?Descriptor instead\.\n//mg;

        my ($literal) = $text =~ /^const file_${name}_rawDesc = (.*?)\n\n/ms or die "$file: no schema";
        my $wrappers = '';
        while ($text =~ /^\tfile_${name}_msgTypes\[(\d+)\]\.OneofWrappers = (\[\]any\{.*?\n?\t?\})\n/msg) {
            $wrappers .= "\nfunc (*$message{$1}) XXX_OneofWrappers() []any {\n\treturn $2\n}\n";
        }
        my ($schema, $packed) = bytes_of($literal);
        gzip(\$schema => \$packed, -Minimal => 1, -Level => 9) or die "$file: $GzipError";
        $packed = join " +\n\t", map { '"' . join('', map { sprintf '\x%02x', ord } split //, $_) . '"' } unpack '(a40)*', $packed;
        $text =~ s/^var File_\w+ protoreflect.*//ms;
        $text .= "// file_${name}_schema is the file's descriptor, packed by gzip.\nvar file_${name}_schema = []byte($packed)\n\nfunc file_${name}_rawDescGZIP() []byte { return file_${name}_schema }\n$wrappers";
        my $needed = ($text =~ /\bplaintext\.Text/ ? "\tplaintext \"stint/events/plain\"\n" : '') . ($text =~ /\bstrconv\./ ? "\tstrconv \"strconv\"\n" : '');
        $text =~ s/^import \(\n/import (\n$needed/m;
    }
    open my $out, '>', $file or die "$file: $!";
    print $out $text;
    close $out;
}

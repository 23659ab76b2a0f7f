# Has generated codecs do nothing as the program starts, which each command would wait for: protobuf's registry is told of their messages
# when somebody asks for a description, which hardly one does, what it notes of them lies in memory that is not touched before, and
# maps of the names of values are there only where the sources use them.
undef $/;
my %used = map { $_ => 1 } split /\s+/, `git grep -hoE '\\b[A-Z][A-Za-z0-9]*_(name|value)\\b' -- '*.go' ':!*.pb.go'`;
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!";
    my $text = <$in>;
    close $in;
    my $before = $text;

    $text =~ s/^(var file_\w+_(?:msg|enum)Types) = make\(\[\](protoimpl\.\w+), (\d+)\)/$1 [$3]$2/mg;
    $text =~ s/^(\t\t(?:Enum|Message)Infos: +file_\w+Types),/$1\[:],/mg;
    $text =~ s/^\t(\w+_(?:name|value)) +?= map\[\w+\]\w+\{\n.*?^\t\}\n/$used{$1} ? $& : ''/msge;
    $text =~ s/^\/\/ Enum value maps for \w+\.\nvar \(\n\)\n\n//mg;

    if (my ($init) = $text =~ /^func init\(\) \{ (\w+)_init\(\) \}\n/m) {
        my %seen; # one message of each package that it builds on, whose file has to be known first
        my @others = grep { /^\(\*(\w+)\./ && !$seen{$1}++ } $text =~ /^\t(\(\*\w+(?:\.\w+)?\)\(nil\)),/mg;
        my $first = join '', map { "\t$_.ProtoReflect()\n" } @others;
        $text =~ s/^func init\(\) \{ ${init}_init\(\) \}\nfunc ${init}_init\(\) \{\n/var ${init}_once sync.Once\n\nfunc ${init}_init() { ${init}_once.Do(${init}_build) }\nfunc ${init}_build() {\n$first/m;
        $text =~ s/^(func \([^)]*\) (?:ProtoReflect|Reset|Descriptor|Type)\(\)[^\n]*\{\n)(?=(?:\t[^\n]*\n){0,2}\t[^\n]*${init}_(?:msgTypes|enumTypes)\[)/$1\t${init}_init()\n/mg;
    }
    next if $text eq $before;
    open my $out, '>', $file or die "$file: $!";
    print $out $text;
    close $out;
}

# Has generated codecs tell protobuf's registry of their messages when somebody asks for a description, not as the program starts: that
# costs each command 2 ms, and hardly one asks.
undef $/;
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!";
    my $text = <$in>;
    close $in;
    my ($init) = $text =~ /^func init\(\) \{ (\w+)_init\(\) \}\n/m or next;
    my %seen; # one message of each package that it builds on, whose file has to be known first
    my @others = grep { /^\(\*(\w+)\./ && !$seen{$1}++ } $text =~ /^\t(\(\*\w+(?:\.\w+)?\)\(nil\)),/mg;
    my $first = join '', map { "\t$_.ProtoReflect()\n" } @others;
    $text =~ s/^func init\(\) \{ ${init}_init\(\) \}\nfunc ${init}_init\(\) \{\n/var ${init}_once sync.Once\n\nfunc ${init}_init() { ${init}_once.Do(${init}_build) }\nfunc ${init}_build() {\n$first/m;
    $text =~ s/^(func \([^)]*\) (?:ProtoReflect|Reset|Descriptor|Type)\(\)[^\n]*\{\n)(?=(?:\t[^\n]*\n){0,2}\t[^\n]*${init}_(?:msgTypes|enumTypes)\[)/$1\t${init}_init()\n/mg;
    open my $out, '>', $file or die "$file: $!";
    print $out $text;
    close $out;
}

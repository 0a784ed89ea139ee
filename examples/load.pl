#!/usr/bin/perl
# Load and free memory of every node, once a second: load.pl [HOST [PORT [COUNT]]]
# docs/text-protocol.md tells what is said.
use strict;
use warnings;
use bigint;
use IO::Socket::INET;

my ($host, $port, $count) = (@ARGV, ('localhost', 2709, 0)[@ARGV .. 2]);
my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) or die "$host:$port: $@\n";
$socket->autoflush(1);

# Everything up to the blank line.
sub answer {
    my @lines;
    while (defined(my $line = <$socket>)) {
        chomp $line;
        return @lines if $line eq '';
        push @lines, $line;
    }
    die "the connection was closed\n";
}

# '#' names the items; the sum of their bits is the mask.
print $socket '#';
my $mask = 0;
for (answer()) {
    my ($bit, $name) = split ' ';
    $mask += hex("0x$bit") if $name eq 'load1m' || $name eq 'memfree';
}
printf $socket "%s\n", substr($mask->as_hex, 2);

for (my $round = 0; !$count || $round < $count; $round++) {
    sleep 1 if $round;
    print $socket 'S';
    print "$_\n" for answer();
}

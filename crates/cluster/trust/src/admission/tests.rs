//! A test for each cell: door, way in, role. The expected roles are written here a second time, by hand.

use super::*;

const REFUSED: [bool; 4] = [false; 4];
/// In the order of [`Role::ALL`]: node, reader, operator, hub.
const ANYBODY: [bool; 4] = [true; 4];
const READER: [bool; 4] = [false, true, false, false];
const OPERATOR: [bool; 4] = [false, true, true, false];
const NAMED: [bool; 4] = [true, true, false, false];

/// One test for each role at this door, for a peer with this way in that shows nothing, or shows exactly this
/// role.
macro_rules! cells {
    ($($door:ident $module:ident { $($way:ident $name:ident: $expected:expr;)* })*) => {$(
        mod $module {
            $(mod $name {
                use super::super::*;

                fn is_expected(role: Role, place: usize) {
                    let expected: [bool; 4] = $expected;
                    let standing = standing(Door::$door, Way::$way, None);
                    assert_eq!(standing.may_be(role), expected[place], "{role}");
                    let most = Role::ALL.into_iter().zip(expected).filter(|(_, may)| *may).map(|(role, _)| role);
                    assert_eq!(standing.most(), most.max());
                }

                #[test]
                fn as_node() {
                    is_expected(Role::Node, 0);
                }

                #[test]
                fn as_reader() {
                    is_expected(Role::Reader, 1);
                }

                #[test]
                fn as_operator() {
                    is_expected(Role::Operator, 2);
                }

                #[test]
                fn as_hub() {
                    is_expected(Role::Hub, 3);
                }
            })*
        }
    )*};
}

cells! {
    Link link {
        LocalRoot by_the_local_socket_as_root: ANYBODY;
        LocalOwn by_the_local_socket_as_its_own_user: ANYBODY;
        LocalOther by_the_local_socket_as_somebody_else: READER;
        LoopbackRunKey over_loopback_with_the_run_key: ANYBODY;
        Loopback over_loopback_with_nothing: READER;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: NAMED;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: NAMED;
    }
    Http http {
        LocalRoot by_the_local_socket_as_root: OPERATOR;
        LocalOwn by_the_local_socket_as_its_own_user: OPERATOR;
        LocalOther by_the_local_socket_as_somebody_else: READER;
        LoopbackRunKey over_loopback_with_the_run_key: READER;
        Loopback over_loopback_with_nothing: READER;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: READER;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: READER;
    }
    Text text {
        LocalRoot by_the_local_socket_as_root: OPERATOR;
        LocalOwn by_the_local_socket_as_its_own_user: OPERATOR;
        LocalOther by_the_local_socket_as_somebody_else: READER;
        LoopbackRunKey over_loopback_with_the_run_key: READER;
        Loopback over_loopback_with_nothing: READER;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: READER;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: READER;
    }
    Alone alone {
        LocalRoot by_the_local_socket_as_root: OPERATOR;
        LocalOwn by_the_local_socket_as_its_own_user: OPERATOR;
        LocalOther by_the_local_socket_as_somebody_else: OPERATOR;
        LoopbackRunKey over_loopback_with_the_run_key: OPERATOR;
        Loopback over_loopback_with_nothing: OPERATOR;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: OPERATOR;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: READER;
    }
    Publish publish {
        LocalRoot by_the_local_socket_as_root: REFUSED;
        LocalOwn by_the_local_socket_as_its_own_user: REFUSED;
        LocalOther by_the_local_socket_as_somebody_else: REFUSED;
        LoopbackRunKey over_loopback_with_the_run_key: REFUSED;
        Loopback over_loopback_with_nothing: REFUSED;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: REFUSED;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: REFUSED;
    }
    Mount mount {
        LocalRoot as_root: OPERATOR;
        LocalOwn as_who_has_mounted: OPERATOR;
        LocalOther as_somebody_else: READER;
        LoopbackRunKey over_loopback_with_the_run_key: REFUSED;
        Loopback over_loopback_with_nothing: REFUSED;
        LoopbackInsecure over_loopback_with_nothing_where_insecure: REFUSED;
        Elsewhere from_elsewhere_with_nothing: REFUSED;
        ElsewhereInsecure from_elsewhere_with_nothing_where_insecure: REFUSED;
    }
}

/// The same for peers that show a role: at each door they are that role, and nothing else.
macro_rules! shown {
    ($($door:ident $module:ident: $takes:expr;)*) => {$(
        mod $module {
            use super::*;

            fn is_expected(way: Way, shown: Role) {
                let takes: [bool; 4] = $takes;
                let expected = Role::ALL.into_iter().zip(takes).any(|(role, taken)| role == shown && taken);
                for role in Role::ALL {
                    let may = standing(Door::$door, way, Some(shown)).may_be(role);
                    assert_eq!(may, expected && role == shown, "{shown} as {role}");
                }
                assert_eq!(standing(Door::$door, way, Some(shown)).most(), expected.then_some(shown));
                assert_eq!(standing(Door::$door, way, None).most(), None, "this way in needs a proof");
            }

            #[test]
            fn over_loopback_with_a_token_as_each_role() {
                Role::ALL.into_iter().for_each(|role| is_expected(Way::LoopbackShown, role));
            }

            #[test]
            fn from_elsewhere_with_a_certificate_as_each_role() {
                Role::ALL.into_iter().for_each(|role| is_expected(Way::ElsewhereCertificate, role));
            }

            #[test]
            fn from_elsewhere_with_a_token_as_each_role() {
                Role::ALL.into_iter().for_each(|role| is_expected(Way::ElsewhereToken, role));
            }
        }
    )*};
}

const READS: [bool; 4] = [false, true, true, true];

shown! {
    Link link_shown: ANYBODY;
    Http http_shown: READS;
    Text text_shown: READS;
    Alone alone_shown: READS;
    Publish publish_shown: REFUSED;
    Mount mount_shown: REFUSED;
}

#[test]
fn publishing_is_for_everybody_of_this_machine_and_for_nobody_else() {
    for (way, _) in TABLE {
        let is_local = matches!(way, Way::LocalRoot | Way::LocalOwn | Way::LocalOther);
        assert_eq!(standing(Door::Publish, way, None).may_publish(), is_local, "{way:?}");
        assert!(!standing(Door::Link, way, None).may_publish());
    }
}

#[test]
fn every_place_and_proof_is_a_way_of_the_table() {
    let places = [Place::LocalRoot, Place::LocalOwn, Place::LocalOther, Place::Loopback, Place::Elsewhere];
    for place in places {
        for proof in [Proof::Nothing, Proof::RunKey, Proof::Token, Proof::Certificate] {
            for insecure in [false, true] {
                let way = Way::of(place, proof, insecure);
                assert_eq!(TABLE.iter().filter(|(known, _)| *known == way).count(), 1, "{way:?}");
            }
        }
    }
    assert_eq!(Way::of(Place::Elsewhere, Proof::RunKey, false), Way::Elsewhere);
    assert_eq!(Way::of(Place::Loopback, Proof::RunKey, true), Way::LoopbackRunKey);
}

/// The words of `docs/security.md` for a way in.
fn words(way: Way) -> &'static str {
    match way {
        Way::LocalRoot => "local socket, root",
        Way::LocalOwn => "local socket, the daemon's own user",
        Way::LocalOther => "local socket, another user",
        Way::LoopbackRunKey => "loopback, the run key",
        Way::LoopbackShown => "loopback, a token or certificate",
        Way::Loopback => "loopback, nothing",
        Way::LoopbackInsecure => "loopback, nothing, `--insecure`",
        Way::ElsewhereCertificate => "elsewhere, a certificate",
        Way::ElsewhereToken => "elsewhere, a token",
        Way::Elsewhere => "elsewhere, nothing",
        Way::ElsewhereInsecure => "elsewhere, nothing, `--insecure`",
    }
}

fn shown_as(cell: Cell) -> &'static str {
    match cell {
        Cell::Nobody => "-",
        Cell::Anybody => "any role",
        Cell::AsShown => "its own role",
        Cell::Reader => "reader",
        Cell::Operator => "operator",
        Cell::Named => "reader, or node",
        Cell::Publisher => "publishes",
    }
}

#[test]
fn the_table_of_the_documentation_is_this_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/security.md");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let head = "| peer | link | HTTP | text | `khz` alone: HTTP, text | publishing | mounted tree |";
    let at = lines.iter().position(|line| *line == head).expect("the table of roles");
    for (number, (way, cells)) in TABLE.into_iter().enumerate() {
        let cells: Vec<&str> = cells.into_iter().map(shown_as).collect();
        let expected = format!("| {} | {} |", words(way), cells.join(" | "));
        assert_eq!(lines[at + 2 + number], expected);
    }
    assert!(!lines[at + 2 + TABLE.len()].starts_with('|'), "no further line");
}

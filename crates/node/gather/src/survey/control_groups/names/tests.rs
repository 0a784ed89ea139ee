//! Paths of groups as systemd, Slurm and container runtimes make them, and the files in which they write names down.

use super::*;
use crate::made_up::MadeUp;
use proptest::prelude::*;

const ID: &str = "4f5c2d9b8a7e6f1023456789abcdef0123456789abcdef0123456789abcdef01";
const OTHER: &str = "00aa2d9b8a7e6f1023456789abcdef0123456789abcdef0123456789abcdef01";
const UID: &str = "0aa1b2c3-d4e5-4f60-8a9b-0c1d2e3f4a5b";

struct Root(MadeUp);

impl Root {
    fn new(name: &str) -> Self {
        Root(MadeUp::new(&format!("names-{name}")))
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        self.0.write(path, text);
    }

    fn of(&self, path: &str) -> Option<(String, &'static str, bool, bool)> {
        let groups = self.0.join("sys/fs/cgroup");
        fs::create_dir_all(groups.join(path)).unwrap();
        let named = Names::new(&self.0).of(&groups, path)?;
        Some((named.name, named.kind, named.is_resolved, named.has_parts))
    }
}

fn is(
    name: &str,
    kind: &'static str,
    is_resolved: bool,
    has_parts: bool,
) -> Option<(String, &'static str, bool, bool)> {
    Some((name.to_owned(), kind, is_resolved, has_parts))
}

#[test]
fn units_of_systemd_keep_their_path() {
    let root = Root::new("units");
    for (path, kind) in [
        ("system.slice", "slice"),
        ("system.slice/ssh.service", "service"),
        ("init.scope", "scope"),
        ("user.slice/user-1000.slice/user@1000.service/app.slice", "slice"),
        ("mine", "group"),
        // A service that is called like a container's parts, but has no identifier.
        ("system.slice/docker.service", "service"),
        ("docker", "group"),
    ] {
        assert_eq!(root.of(path), is(path, kind, true, true), "{path}");
    }
}

#[test]
fn jobs_of_slurm_are_called_by_their_number() {
    let root = Root::new("slurm");
    let scope = "system.slice/slurmstepd.scope";
    assert_eq!(root.of(&format!("{scope}/job_7")), is("slurm/job_7", "job", true, true));
    assert_eq!(
        root.of(&format!("{scope}/job_7/step_batch")),
        is("slurm/job_7/step_batch", "step", true, false)
    );
    for none in ["system", "job_7/step_0/user", "job_7/step_0/user/task_3"] {
        assert_eq!(root.of(&format!("{scope}/{none}")), None, "{none}");
    }
    let shared = "system.slice/n12_slurmstepd.scope";
    assert_eq!(root.of(&format!("{shared}/job_8/step_0")), is("slurm/n12/job_8/step_0", "step", true, false));
}

#[test]
fn jobs_of_newer_slurm_are_called_by_what_their_processes_say() {
    let root = Root::new("sluid");
    let job = "system.slice/slurmstepd.scope/s4KXPN7YKM9R00";
    assert_eq!(root.of(job), is("slurm/job_s4KXPN7YKM9R00", "job", false, true), "there is no process");
    root.write(&format!("sys/fs/cgroup/{job}/cgroup.procs"), "");
    root.write(&format!("sys/fs/cgroup/{job}/step_0/user/task_0/cgroup.procs"), "77\n78\n");
    root.write("proc/77/environ", "PATH=/bin\0SLURM_JOB_ID=\0");
    assert_eq!(root.of(job), is("slurm/job_s4KXPN7YKM9R00", "job", false, true), "it says no number");
    root.write("proc/78/environ", "PATH=/bin\0SLURM_JOB_ID=123\0SLURM_JOB_NAME=a\0");
    assert_eq!(root.of(job), is("slurm/job_123", "job", true, true));
    assert_eq!(root.of(&format!("{job}/step_0")), is("slurm/job_123/step_0", "step", true, false));
}

#[test]
fn containers_are_called_by_the_names_that_their_runtimes_wrote_down() {
    let root = Root::new("containers");
    let short = &ID[..SHORT_ID];
    let docker = [format!("system.slice/docker-{ID}.scope"), format!("docker/{ID}")];
    let podman = [format!("machine.slice/libpod-{ID}.scope"), format!("libpod_parent/libpod-{ID}")];
    for (paths, runtime) in [(&docker, "docker"), (&podman, "podman")] {
        for path in paths {
            assert_eq!(root.of(path), is(&format!("{runtime}/{short}"), "container", false, false), "{path}");
        }
    }
    root.write(
        &format!("var/lib/docker/containers/{ID}/config.v2.json"),
        r#"{"ID":"x","Name":"/web","State":{}}"#,
    );
    let file = "var/lib/containers/storage/overlay-containers/containers.json";
    root.write(
        file,
        format!(r#"[{{"id":"{OTHER}","names":["other"]}},{{"id":"{ID}","names":["db"],"image":"i"}}]"#),
    );
    for (paths, name) in [(&docker, "docker/web"), (&podman, "podman/db")] {
        for path in paths {
            assert_eq!(root.of(path), is(name, "container", true, false), "{path}");
        }
    }
    for path in ["lxc.payload.mail", "lxc/mail"] {
        assert_eq!(root.of(path), is("lxc/mail", "container", true, false), "{path}");
    }
    // What stands in such a file may be anything.
    for text in ["", "{", "[]", "null", r#"{"Name":7}"#, r#"{"Name":""}"#, r#"{"Name":"/a/../b"}"#] {
        root.write(&format!("var/lib/docker/containers/{ID}/config.v2.json"), text);
        assert_eq!(root.of(&docker[0]), is(&format!("docker/{short}"), "container", false, false), "{text}");
    }
}

#[test]
fn pods_are_called_by_their_namespace_and_name() {
    let root = Root::new("pods");
    let systemd = format!(
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
        UID.replace('-', "_")
    );
    let plain = format!("kubepods/besteffort/pod{UID}");
    let inside = [
        format!("{systemd}/cri-containerd-{ID}.scope"),
        format!("{systemd}/crio-{ID}.scope"),
        format!("{plain}/{ID}"),
    ];
    for path in [&systemd, &plain] {
        assert_eq!(root.of(path), is(&format!("pod/{UID}"), "pod", false, true), "{path}");
    }
    for path in &inside {
        let name = format!("pod/{UID}/{}", &ID[..SHORT_ID]);
        assert_eq!(root.of(path), is(&name, "container", false, false), "{path}");
    }
    fs::create_dir_all(root.0.join(format!("var/log/pods/kube-system_coredns-7db6d8ff4d-x2v9q_{UID}")))
        .unwrap();
    root.write(&format!("var/log/containers/coredns-7db6d8ff4d-x2v9q_kube-system_coredns-{ID}.log"), "");
    for path in [&systemd, &plain] {
        assert_eq!(
            root.of(path),
            is("pod/kube-system/coredns-7db6d8ff4d-x2v9q", "pod", true, true),
            "{path}"
        );
    }
    for path in &inside {
        let name = "pod/kube-system/coredns-7db6d8ff4d-x2v9q/coredns";
        assert_eq!(root.of(path), is(name, "container", true, false), "{path}");
    }
    assert_eq!(root.of("kubepods.slice/kubepods-besteffort.slice").map(|named| named.1), Some("slice"));
}

/// Paths below a slice of root that say more than a unit's, each with its kind if somebody else has made it.
fn named_paths() -> [(String, &'static str); 5] {
    let pod = format!("a-mine-kubepods-pod{}.slice", UID.replace('-', "_"));
    [
        (format!("docker-{ID}.scope"), "container"),
        (format!("libpod-{ID}.scope"), "container"),
        ("slurmstepd.scope/job_7".to_owned(), "group"),
        ("lxc.payload.mail".to_owned(), "container"),
        (format!("{pod}/{ID}"), "container"),
    ]
}

#[test]
fn what_anybody_can_make_keeps_its_path_whatever_it_is_called() {
    let root = Root::new("forged");
    root.write(&format!("var/lib/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/web"}"#);
    let docker = format!("system.slice/docker-{ID}.scope");
    let others = root.0.join("sys/fs/cgroup/a.slice/a-mine.slice");
    for (below, kind) in &named_paths()[..4] {
        let path = format!("a.slice/a-mine.slice/{below}");
        let named = root.of(&path).map(|named| named.0);
        assert_ne!(named.as_deref(), Some(&*path), "root has made it");
        fs::set_permissions(&others, fs::Permissions::from_mode(0o757)).unwrap();
        let has_parts = *kind != "container";
        assert_eq!(root.of(&path), is(&path, kind, true, has_parts), "{path}");
        fs::set_permissions(&others, fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(root.of(&docker), is("docker/web", "container", true, false));
    // A container's own user may have its folder.
    fs::set_permissions(root.0.join("sys/fs/cgroup").join(&docker), fs::Permissions::from_mode(0o777))
        .unwrap();
    assert_eq!(root.of(&docker), is("docker/web", "container", true, false));
}

#[test]
fn what_a_user_owns_keeps_its_path() {
    let root = Root::new("delegated");
    let others = root.0.join("sys/fs/cgroup/a.slice/a-mine.slice");
    fs::create_dir_all(&others).unwrap();
    if let Err(error) = std::os::unix::fs::chown(&others, Some(65_534), None) {
        return khz_skip::skip(format!("giving a folder to another user: {error}"));
    }
    for (below, kind) in named_paths() {
        let path = format!("a.slice/a-mine.slice/{below}");
        assert_eq!(root.of(&path), is(&path, kind, true, kind != "container"), "{path}");
    }
}

#[test]
fn only_at_the_places_where_slurm_and_runtimes_make_groups_have_they_such_names() {
    let root = Root::new("places");
    let pod = format!("kubepods-pod{}.slice", UID.replace('-', "_"));
    let made = [
        "slurmstepd.scope/job_7".to_owned(),
        "other.slice/slurmstepd.scope/job_7".to_owned(),
        format!("machine.slice/machine-a.slice/docker-{ID}.scope"),
        format!("parent/{ID}"),
        format!("kubepods.slice/{pod}"),
        format!("kubepods.slice/{pod}/crio-{ID}.scope"),
        format!("kubepods/pod{UID}/{ID}"),
    ];
    for path in made {
        assert_ne!(root.of(&path).map(|named| named.0), Some(path.clone()), "{path}");
    }
    let users = "user.slice/user-1000.slice";
    let elsewhere = [
        "other.slice/system.slice/slurmstepd.scope/job_7".to_owned(),
        "system.slice/a.service/slurmstepd.scope/job_7".to_owned(),
        format!("{users}/slurmstepd.scope/job_7"),
        format!("{users}/docker-{ID}.scope"),
        format!("{users}/user@1000.service/docker/{ID}"),
        format!("system.slice/a.service/{ID}"),
        format!("system.slice/other-x.slice/docker-{ID}.scope"),
        format!("system.slice/a.service/kubepods.slice/{pod}"),
        format!("mine/kubepods/pod{UID}"),
        format!("mine/kubepods/burstable/pod{UID}/{ID}"),
        "mine/lxc.payload.mail".to_owned(),
        "mine/lxc/mail".to_owned(),
        format!("a/b/docker-{ID}.scope"),
        // With systemd, above such a group there are slices only.
        format!("foo/docker-{ID}.scope"),
        format!("foo/libpod-{ID}.scope"),
        format!("system.slice/foo/{ID}"),
    ];
    for path in elsewhere {
        let named = root.of(&path).unwrap();
        assert_eq!((named.0.as_str(), named.2), (path.as_str(), true));
    }
}

proptest! {
    #[test]
    fn any_path_has_a_name_or_is_left_out(path in "([a-z_0-9.-]{0,12}(slurmstepd.scope|docker-|-pod|.slice|kubepods)?/?){0,6}") {
        let nowhere = Path::new("/nowhere");
        let (names, parts) = (Names::new(nowhere), path.split('/').collect::<Vec<_>>());
        let of_root = names.named(nowhere, &path, &What::of(&parts), &parts);
        let of_others = names.of(nowhere, &path);
        prop_assert_eq!(of_others.as_ref().map(|named| &named.name), Some(&path));
        prop_assert!(of_root.is_none_or(|named| !named.name.is_empty() || path.is_empty()));
    }
}

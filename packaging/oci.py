#!/usr/bin/env python3
"""Writes an OCI image layout with nothing but the static binary: packaging/oci.py [BINARY [FOLDER]].

The layout (image-spec 1.0) is also written as one tar file, which `skopeo copy oci-archive:FILE` and `podman load` take. Times are
zero, so equal binaries give equal images. The image runs as user 10001, with its data in /data.
"""

import gzip
import hashlib
import io
import json
import pathlib
import platform
import stat
import subprocess
import sys
import tarfile

USER = 10001
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def entry(name, mode, kind=tarfile.REGTYPE, size=0, owner=0):
    """A header of a tar file, the same at every run."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, 0
    info.uid = info.gid = owner
    return info


def layer(binary):
    """The one layer: the binary, and folders for data and temporary files."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(entry("data", 0o700, tarfile.DIRTYPE, owner=USER))
        tar.addfile(entry("tmp", 0o1777, tarfile.DIRTYPE))
        tar.addfile(entry("pleach", 0o755, size=len(binary)), io.BytesIO(binary))
    return text.getvalue()


def main():
    here = pathlib.Path(__file__).resolve().parent
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here / "out" / "pleach")
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else here / "out" / "oci")
    if not path.is_file() or not path.stat().st_mode & stat.S_IXUSR:
        sys.exit(f"no binary at {path}: run packaging/static.sh first")
    words = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout.split()
    version = words[1]
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def blob(content, media):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    tar = layer(path.read_bytes())
    packed = gzip.compress(tar, 9, mtime=0)
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/pleach"],
            "Cmd": ["serve"],
            "Env": ["PLEACH_DATA=/data"],
            "WorkingDir": "/data",
            "Volumes": {"/data": {}},
            "ExposedPorts": {"9200/tcp": {}},
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
        "history": [{"created_by": "packaging/oci.py"}],
    }
    text = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(text(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
    }
    described = blob(text(manifest), manifest["mediaType"])
    described["annotations"] = {"org.opencontainers.image.ref.name": version}
    (folder / "index.json").write_bytes(text({"schemaVersion": 2, "manifests": [described]}))
    (folder / "oci-layout").write_bytes(text({"imageLayoutVersion": "1.0.0"}))

    archive = folder.with_name(f"pleach-{version}.oci.tar")
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as out:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = file.read_bytes()
            out.addfile(entry(str(file.relative_to(folder)), 0o644, size=len(content)), io.BytesIO(content))
    print(archive)


if __name__ == "__main__":
    main()

# spack install trident, once this file is in a repository of yours: repo/packages/trident/package.py. Without a release
# that has an address it builds a clone: spack develop --path CLONE trident@main
from spack.package import *


class Trident(MakefilePackage):
    """Trains and serves classifiers of two texts and numbers, on one core or on many ranks."""

    license("Apache-2.0")

    version("main")

    variant("mpi", default=False, description="Builds the plug-in that mpirun and srun need")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("xxhash", type="build")
    depends_on("libyaml")
    depends_on("lz4")
    depends_on("utf8proc")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("mpi", when="+mpi")

    conflicts("platform=darwin", msg="Trident runs on Linux")

    def make_arguments(self):
        mpi = self.spec["mpi"].mpicc if self.spec.satisfies("+mpi") else ""
        return ["CC=" + spack_cc, "CFLAGS=-O3 -g1", "MPI=" + mpi, "MPI_EACH=", "NVCC=", "PREFIX=" + self.prefix]

    @property
    def build_targets(self):
        return self.make_arguments() + ["all"]

    @property
    def install_targets(self):
        return self.make_arguments() + ["install"]

"""Checks configs/launch/jobset.yaml and skypilot.yaml against what Kubernetes, JobSet and SkyPilot publish of their schemas.

    python scripts/check-launch-files.py

Needs the packages kubeflow-trainer-api (the models of JobSet's API), kubernetes-validate and skypilot. JobSet itself publishes its
definition for Kubernetes in no package; the models are generated from it, without the conditions between keys.
"""

import pathlib

import jsonschema
import kubernetes_validate
import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
from sky.utils import schemas

FOLDER = pathlib.Path(__file__).parent.parent / "configs/launch"
KUBERNETES = "1.32"


def lost(given, kept, place=""):
    """The places of keys that a model does not know, which it leaves out, and of values that it changed."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [fault for key, value in given.items() for fault in lost(value, kept.get(key), f"{place}.{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [fault for at, pair in enumerate(zip(given, kept)) for fault in lost(*pair, f"{place}[{at}]")]
    return [] if given == kept or str(given) == str(kept) else [place]


def check_jobset(jobset):
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet"), "another kind of object"
    faults = lost(jobset, JobsetV1alpha2JobSet.from_dict(jobset).to_dict())
    assert not faults, f"no keys of a JobSet: {faults}"
    for replicated in jobset["spec"]["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": replicated["name"]}, **replicated["template"]}
        kubernetes_validate.validate(job, KUBERNETES, strict=True)


def check_skypilot(task):
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())


def refused(check, value):
    """Whether a check finds the fault in a value: it would pass everything otherwise."""
    try:
        check(value)
    except Exception:
        return True
    return False


def main():
    for name, check, path in [
        ("jobset.yaml", check_jobset, ["spec"]),
        ("jobset.yaml", check_jobset, ["spec", "replicatedJobs", 0, "template", "spec", "template", "spec"]),
        ("skypilot.yaml", check_skypilot, []),
        ("skypilot.yaml", check_skypilot, ["resources"]),
    ]:
        value = yaml.safe_load((FOLDER / name).read_text())
        check(value)
        inner = value
        for key in path:
            inner = inner[key]
        inner["acelerators"] = 8
        assert refused(check, value), f"{name}: an unknown key in {path} is not found"
        print(f"{name}: right; an unknown key in {path or 'the file'} is found")


if __name__ == "__main__":
    main()

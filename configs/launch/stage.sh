#!/usr/bin/env bash
# The paper's settings of both training stages, for the scripts in this folder: sets STAGE_FLAGS.
#   stage.sh im | spag
# Environment: MODEL, DATA, OUT, and for spag also REF (the imitation model, which is the reference model).
stage_flags() {
    : "${MODEL:?the checkpoint to train}" "${DATA:?the samples}" "${OUT:?the output folder}"
    case "${1:-}" in
        im)
            STAGE_FLAGS=(--train_method SFTwithKL --lm_kl_coeff 0.1 --learning_rate 5e-6
                --ref_model_name_or_path "${REF:-$MODEL}")
            ;;
        spag)
            STAGE_FLAGS=(--train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --learning_rate 2e-6
                --ref_model_name_or_path "${REF:?the imitation model}")
            ;;
        *)
            echo "usage: MODEL=… DATA=… OUT=… [REF=…] $0 im|spag" >&2
            return 2
            ;;
    esac
    STAGE_FLAGS+=(--model_name_or_path "$MODEL" --train_data_path "$DATA" --output_dir "$OUT"
        --num_train_epochs 1 --per_device_train_batch_size 2 --max_length 2048
        --lr_scheduler_type cosine --warmup_ratio 0.03 --weight_decay 0
        --bf16 True --gradient_checkpointing True --resume_from_checkpoint latest)
}

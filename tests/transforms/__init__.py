"""Do function transforms and control flow mean inside compiled code what they mean in eager?"""

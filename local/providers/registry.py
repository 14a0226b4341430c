"""The simulated providers: one line each, the class and where its wire API begins.

Classes are imported when chosen: the wire of EC2 takes a second to load.
"""

SIMULATORS = {
    "ec2": ("local.providers.ec2:Ec2Simulator", ""),
    "fluence": ("local.providers.fluence:FluenceSimulator", "/gpu"),
    "gce": ("local.providers.gce:GceSimulator", ""),
    "lambda": ("local.providers.lambda_cloud:LambdaSimulator", "/api/v1"),
    "runpod": ("local.providers.runpod:RunpodSimulator", "/v2"),
    "vastai": ("local.providers.vastai:VastSimulator", "/api"),
}
